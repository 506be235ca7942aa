"""Ports on loopback."""

from __future__ import annotations

import random
import socket

from cdc.errors import StackError

HOST = "127.0.0.1"
# Below the range systems take for outgoing connections (32768 up on Linux): while a server is
# down, no client may be handed its port by chance.
_LOWEST, _HIGHEST = 15_000, 32_000
_TRIES = 500


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def free_port(taken: set[int], beside: int = 0) -> int:
    """A port nobody listens on, and not one of ``taken``; nor is the one that is ``beside`` above
    it, where a server takes a second port by itself."""
    for _ in range(_TRIES):
        port = random.randint(_LOWEST, _HIGHEST - beside)
        if all(one not in taken and is_free(one) for one in {port, port + beside}):
            return port
    raise StackError(f"no free port between {_LOWEST} and {_HIGHEST} on {HOST}")
