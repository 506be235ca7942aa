"""HTTP for Prometheus and for probes: ``/metrics``, ``/livez`` and ``/readyz``.

It answers from memory, on threads of its own, and listens where ``[metrics]`` says.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from cdc.errors import UsageError
from cdc.log_events import LogEvent
from cdc.metrics.exposition import exposed
from cdc.metrics.probes import Probes

_CLIENT_S: Final = 10.0
"""A client that is slower is cut off."""
_PAGES: Final = ["/metrics", "/livez", "/readyz"]

log = structlog.get_logger("metrics")


class MetricsServer:
    """Listens from its making to ``close``. Raises ``UsageError`` where it cannot."""

    def __init__(self, address: str, setting: str, registry: CollectorRegistry, probes: Probes):
        class Answers(_Handler):
            pass

        Answers.registry, Answers.probes = registry, probes
        try:
            self._server = _server(address, Answers)
        except OSError as error:
            raise UsageError(
                f'{setting} = "{address}": cannot listen there: {error.strerror or error}',
                "end the process that uses the port, or set another address",
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()
        log.info(LogEvent.METRICS_SERVED, address=address)

    def close(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()


def _server(address: str, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family, *_, place = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]

    class Server(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that went away is nobody's fault; the rest is a fault of ours."""
            error = sys.exception()
            if not isinstance(error, OSError):
                log.error(LogEvent.METRICS_NOT_SERVED, error=repr(error))

    return Server((str(place[0]), int(place[1])), handler)


class _Handler(BaseHTTPRequestHandler):
    registry: CollectorRegistry
    probes: Probes
    timeout = _CLIENT_S
    server_version, sys_version = "headwater", ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            kind, body = exposed(self.registry, self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, kind, body)
        elif path == "/livez":
            live, reason = self.probes.live()
            self._report(live, {"live": live, "reason": reason})
        elif path == "/readyz":
            ready, missing = self.probes.ready()
            self._report(ready, {"ready": ready, "missing": list(missing)})
        else:
            self._report(None, {"error": "no such page", "pages": _PAGES})

    def log_message(self, *_: object) -> None:
        """Scrapes are not worth a line each."""

    def _report(self, good: bool | None, document: dict[str, object]) -> None:
        bad = HTTPStatus.NOT_FOUND if good is None else HTTPStatus.SERVICE_UNAVAILABLE
        body = json.dumps(document).encode() + b"\n"
        self._answer(HTTPStatus.OK if good else bad, "application/json", body)

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
