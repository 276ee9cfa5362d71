"""Simulated Talos nodes that speak the real API over the real TLS, and the switches to move, wipe and break them.

It alone owns what a node is and does. In-process, `services.simulator.fleet.Fleet` is all that a test needs.
"""
