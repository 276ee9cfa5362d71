"""The embedded default on one screen: starts every part as a process of its own and tells one story with them.

It alone owns the story and its drawing. It speaks to the parts only from outside, as an operator does: with
objects in the Kubernetes API, and with the switches of the simulated boxes.
"""
