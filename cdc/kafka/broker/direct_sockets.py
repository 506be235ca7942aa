"""Sockets of kafka-python that are closed where no connection comes about.

Its own are left to the garbage collector then, in cycles with the error: an outage of hours would
take all handles that a process may have. A scheme of ``proxy_url`` is the way that it gives.
"""

from __future__ import annotations

import socket
from typing import Any, Final

from kafka.net.inet import KafkaNetSocket

DIRECT: Final = "direct://"
"""``proxy_url`` of clients that connect by themselves."""


class DirectSocket(KafkaNetSocket):  # type: ignore[misc]
    """Registered by its being defined."""

    SCHEMES = ("direct",)

    async def connect(
        self, net: Any, addrinfo: Any, socket_options: Any = (), timeout_at: float | None = None
    ) -> socket.socket:
        """A connected socket, or an error of kafka-python."""
        family, kind, protocol, _, address = addrinfo
        found: socket.socket = self.socket(family, kind, protocol)
        try:
            found.setblocking(False)
            for option in socket_options:
                found.setsockopt(*option)
            await self.sock_connect(net, found, address, timeout_at=timeout_at)
            return found
        except Exception:
            found.close()
            raise
