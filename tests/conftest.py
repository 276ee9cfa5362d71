"""What every test can ask for: the real servers and tools of tests/peers."""

pytest_plugins = ["tests.peers.fixtures"]
