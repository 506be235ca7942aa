"""TLS in front of a PostgreSQL that has none: it answers as a server with TLS would."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import trustme

_SSL_REQUEST: Final = 8
"""Bytes of the message in which a client asks for TLS.
https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL"""
_CHUNK: Final = 1 << 16


@contextmanager
def behind_tls(dsn: str, home: Path) -> Iterator[str]:
    """A URL through which the server of ``dsn`` is reached by TLS only, its certificate checked."""
    authority = trustme.CA()
    certificate = home / "ca.pem"
    authority.cert_pem.write_to_path(str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    parts = urlsplit(dsn)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def opened() -> asyncio.Server:
        return await asyncio.start_server(
            lambda reader, writer: _serve(reader, writer, context, parts.port or 0), "127.0.0.1", 0
        )

    server = asyncio.run_coroutine_threadsafe(opened(), loop).result(10)
    port = server.sockets[0].getsockname()[1]
    place = f"{parts.username}@127.0.0.1:{port}"
    query = f"sslmode=verify-full&sslrootcert={certificate}"
    try:
        yield urlunsplit(parts._replace(netloc=place, query=query))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext, port: int
) -> None:
    await reader.readexactly(_SSL_REQUEST)
    writer.write(b"S")
    await writer.drain()
    await writer.start_tls(context)
    upstream, downstream = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(_pump(reader, downstream), _pump(upstream, writer))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        sink.close()
