"""The application on a socket: uvicorn, its limits on connections, and its end in good order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cdc.config import Config, Serve
from cdc.errors import UsageError
from cdc.log_events import LogEvent
from cdc.metrics.server import MetricsServer
from headwater.api.app import Routes, application
from headwater.api.certificate import Certificate
from headwater.api.changes.clients import RETRY_AFTER_S
from headwater.api.changes.event_position import refuse_unread
from headwater.api.changes.streams import TRANSPORT
from headwater.api.guard import App, Receive, Scope, Send

_REQUEST_S: Final = 10.0
"""From the connection to a whole request; a connection that only waits costs a file descriptor."""
_UNREAD_BYTES: Final = 256 << 10
"""More than any request has: a parser would keep headers without an end."""
_OTHERS: Final = 256
"""Connections beside streams."""
_STOP_S: Final = 10
_LOOK_S: Final = 0.05
_THREADS: Final = 32
"""For what blocks: reading spools, the catalog, Kafka by clients that catch up."""
_BACKLOG: Final = 2_048
_WRITE_BYTES: Final = 64 << 10
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
    b"Retry-After: %d\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
)
_FULL_BODY: Final = (
    b'{"type":"urn:headwater:problem:too-many-connections","title":"Service Unavailable",'
    b'"status":503,"detail":"Too many connections are open."}'
)

log = structlog.get_logger("serve")


def serve(config: Config, config_path: Path, *more: Routes) -> None:
    """Until SIGTERM or Ctrl-C, with ``more`` routes than the API has. ``config_path`` is for the
    commands that it runs. Raises ``UsageError`` where it cannot listen, or cannot read what it
    needs for that."""
    refuse_unread(config.form)
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with listening(config.serve) as taken, runner:
        runner.run(_serve(config, config_path, taken, more))


def listening(serve: Serve) -> socket.socket:
    """A socket there. Raises ``UsageError``: another process may listen."""
    try:
        family, *_, place = socket.getaddrinfo(serve.host, serve.port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, socket.SOCK_STREAM)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(place)
        taken.listen(_BACKLOG)
    except OSError as error:
        raise UsageError(
            f'serve.listen = "{serve.listen}": cannot listen there: {error.strerror or error}',
            "end the process that uses the port (another `headwater serve`?), or set another "
            "address",
        ) from error
    taken.setblocking(False)
    return taken


async def _serve(
    config: Config, config_path: Path, taken: socket.socket, more: Sequence[Routes]
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    app, inner = application(config, config_path, *more)
    certificate = Certificate(config.serve) if config.serve.tls_key else None
    settings = _settings(config.serve, app, certificate)
    server = uvicorn.Server(settings)
    shared = inner.state.shared
    if address := config.metrics.serve:  # until the process ends
        MetricsServer(address, "metrics.serve", shared.watching.registry, shared.watching.probes)

    def stop(*_: object) -> None:
        """While it starts; and what uvicorn, which has handlers of its own meanwhile, raises again
        at its end is the end of this process in good order."""
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)

    async def end_streams() -> None:
        """As soon as the server is told to stop: it waits for what is under way."""
        while not server.should_exit:
            await asyncio.sleep(_LOOK_S)
        shared.stop()

    beside = [asyncio.create_task(end_streams())]
    if certificate is not None:
        beside.append(asyncio.create_task(certificate.watch()))
    log.info(LogEvent.SERVING, address=config.serve.listen, tls=bool(config.serve.tls_key))
    try:
        async with inner.router.lifespan_context(inner):
            await server.serve(sockets=[taken])
    finally:
        for task in beside:
            task.cancel()
    # Threads may wait for a server: for a view, or for a slot. They have nothing to put in order.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _settings(serve: Serve, app: App, certificate: Certificate | None = None) -> Any:
    settings = uvicorn.Config(
        app,
        http=partial(_Connection, most=serve.max_streams + _OTHERS),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=bool(serve.behind_proxy),
        forwarded_allow_ips=list(serve.behind_proxy),
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_STOP_S,
        h11_max_incomplete_event_size=64 << 10,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    settings.load()
    if certificate is not None:
        settings.ssl = certificate.context
    return settings


class _Connection(HttpToolsProtocol):  # type: ignore[misc]
    """One connection. Handlers find its transport in the scope; a connection without a request is
    closed soon, and one too many at once."""

    app: App

    def __init__(self, *arguments: Any, most: int, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._most = most
        self._impatience: asyncio.TimerHandle | None = None
        self._unread = 0
        """Bytes that no handler has been called for."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_WRITE_BYTES)
        if len(self.connections) > self._most:
            transport.write(_FULL % (RETRY_AFTER_S, len(_FULL_BODY), _FULL_BODY))
            transport.close()
            return
        inner = self.app

        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            self._be_patient()
            self._unread = 0
            scope[TRANSPORT] = transport
            await inner(scope, receive, send)

        self.app = with_transport
        self._impatience = self.loop.call_later(_REQUEST_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        if self._unread > _UNREAD_BYTES:
            self.transport.abort()
            return
        if self._impatience is None and (self.cycle is None or self.cycle.response_complete):
            self._impatience = self.loop.call_later(_REQUEST_S, self.transport.abort)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        super().connection_lost(exc)

    def _be_patient(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None
