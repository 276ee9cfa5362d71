"""Owns what Kubernetes Nodes say about addresses: turns it into observations when it changes, and decides nothing.

It reads Nodes and publishes; it knows no machine and dials no node.
"""
