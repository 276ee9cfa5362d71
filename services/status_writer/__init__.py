"""Owns `status.observed*`, the decisions behind it, and the streams and consumers that all services use.

It dials no node, reads no Secret and sets no condition. What it decides by is in `libs.rules`.
"""
