"""Loopback ports for programs that cannot choose one themselves and say which."""

import socket

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return different TCP ports that were free a moment ago; somebody else may take one before it is used."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    try:
        return [int(sock.getsockname()[1]) for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def accepts(port: int) -> bool:
    """Whether something listens on that port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True
