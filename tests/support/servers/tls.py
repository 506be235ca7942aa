"""TLS in front of servers that have none: each answers as a server with TLS would."""

from __future__ import annotations

import asyncio
import ssl
import threading
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import trustme

HOST: Final = "127.0.0.1"
_SSL_REQUEST: Final = 8
"""Bytes of the message in which a client asks for TLS.
https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL"""
_CHUNK: Final = 1 << 16
_REFUSED: Final = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"
Opened = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Fronts:
    """Servers with a certificate that ``authority`` signed, for loopback and for ``names``."""

    def __init__(self, home: Path, *names: str) -> None:
        authority = trustme.CA()
        self.certificate = home / "ca.pem"
        """The PEM of who signed."""
        authority.cert_pem.write_to_path(str(self.certificate))
        self.issued = authority.issue_cert(HOST, *names)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.issued.configure_cert(self._context)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def postgres(self, port: int) -> int:
        """A port where a client of PostgreSQL asks for TLS."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(_SSL_REQUEST)
            writer.write(b"S")
            await writer.drain()
            await writer.start_tls(self._context)
            await _joined(reader, writer, port)

        return self._open(serve, None)

    def stream(self, port: int) -> int:
        """A port where TLS begins at once."""
        return self._open(lambda reader, writer: _joined(reader, writer, port), self._context)

    def http(self, port: int, logins: set[tuple[str, str]]) -> int:
        """The same, and each request has to bring a user and password of ``logins``, which may
        change meanwhile."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            upstream, downstream = await asyncio.open_connection(HOST, port)
            answers = asyncio.create_task(_pump(upstream, writer))
            with suppress(OSError, asyncio.IncompleteReadError):
                while await _request(reader, downstream, logins):
                    pass
                writer.write(_REFUSED)
            downstream.close()
            await answers

        return self._open(serve, self._context)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _open(self, serve: Opened, context: ssl.SSLContext | None) -> int:
        async def opened() -> asyncio.Server:
            return await asyncio.start_server(serve, HOST, 0, ssl=context)

        server = asyncio.run_coroutine_threadsafe(opened(), self._loop).result(10)
        return int(server.sockets[0].getsockname()[1])


@contextmanager
def fronts(home: Path, *names: str) -> Iterator[Fronts]:
    """Closed at the end."""
    made = Fronts(home, *names)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def behind_tls(dsn: str, home: Path) -> Iterator[str]:
    """A URL through which the server of ``dsn`` is reached by TLS only, its certificate checked."""
    parts = urlsplit(dsn)
    with fronts(home) as made:
        place = f"{parts.username}@{HOST}:{made.postgres(parts.port or 0)}"
        query = f"sslmode=verify-full&sslrootcert={made.certificate}"
        yield urlunsplit(parts._replace(netloc=place, query=query))


async def _joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    upstream, downstream = await asyncio.open_connection(HOST, port)
    await asyncio.gather(_pump(reader, downstream), _pump(upstream, writer))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        sink.close()


async def _request(
    reader: asyncio.StreamReader, downstream: asyncio.StreamWriter, logins: set[tuple[str, str]]
) -> bool:
    """Pass one on; whether it may be."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = [line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line]
    fields = {name.lower(): value for name, value in lines}
    allowed = {b"Basic " + b64encode(":".join(one).encode()) for one in logins}
    if fields.get(b"authorization") not in allowed:
        return False
    downstream.write(head + await reader.readexactly(int(fields.get(b"content-length", b"0"))))
    await downstream.drain()
    return True
