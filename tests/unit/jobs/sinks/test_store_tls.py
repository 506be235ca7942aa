"""Whom a store's clients trust: the same for ``headwater check`` and for ``headwater apply``."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import trustme

from cdc.config import OpenSearch, Redis
from cdc.errors import ConfigError, SinkError
from cdc.tls import certificates
from headwater.check.store_places import ask_redis
from headwater.check.stores import _opensearch_fault
from jobs.sinks.opensearch.client import server_of
from jobs.sinks.redis.client import Keyspace
from jobs.sinks.redis.sink import address_of


class _Search(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


_ANSWERS = {b"EXISTS": b":0\r\n", b"PING": b"+PONG\r\n"}


class _Cache(socketserver.StreamRequestHandler):
    """Answers commands of Redis, each an array of strings."""

    def handle(self) -> None:
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2].upper())
            self.wfile.write(_ANSWERS.get(words[0], b"+OK\r\n"))


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return made


@pytest.fixture
def port(
    authority: trustme.CA, request: pytest.FixtureRequest
) -> Callable[[type[socketserver.BaseRequestHandler]], int]:
    """Starts a server whose certificate that authority signed; its port on loopback."""

    def start(handler: type[socketserver.BaseRequestHandler]) -> int:
        kind = (
            HTTPServer
            if issubclass(handler, BaseHTTPRequestHandler)
            else socketserver.ThreadingTCPServer
        )
        server = kind(("127.0.0.1", 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        request.addfinalizer(server.server_close)
        request.addfinalizer(server.shutdown)
        return int(server.server_address[1])

    return start


def test_a_named_authority_is_trusted_by_check_and_by_apply(
    port: Callable[[type[socketserver.BaseRequestHandler]], int], tmp_path: Path
) -> None:
    unknown = OpenSearch(kind="opensearch", url=f"https://127.0.0.1:{port(_Search)}")
    known = unknown.model_copy(update={"ssl_ca_location": str(tmp_path / "ca.pem")})
    unverified = unknown.model_copy(update={"verify_certs": False})

    fault = _opensearch_fault(unknown)
    assert fault is not None
    assert "certificate verify failed" in str(fault)
    with pytest.raises(SinkError, match="no trusted TLS connection"):
        server_of(unknown, 0.0).attempt(lambda client: client.transport.perform_request("GET", "/"))
    for store in (known, unverified):
        assert _opensearch_fault(store) is None
        found = server_of(store, 0.0).attempt(
            lambda client: client.transport.perform_request("GET", "/")
        )
        assert found == {}


def test_redis_is_asked_by_a_named_authority(
    port: Callable[[type[socketserver.BaseRequestHandler]], int], tmp_path: Path
) -> None:
    url = f"rediss://127.0.0.1:{port(_Cache)}/0?protocol=2"
    known = Redis(kind="redis", url=url, ssl_ca_location=str(tmp_path / "ca.pem"))
    with closing(Keyspace(address_of(known, 0.0))) as keyspace:
        assert keyspace.call(lambda client: client.exists("headwater")) == 0
    with pytest.raises(SinkError, match="no trusted TLS connection"):
        ask_redis(Redis(kind="redis", url=url))


@pytest.mark.parametrize(("text", "said"), [(None, "No such file"), ("no PEM", "no certificates")])
def test_a_file_without_certificates_is_refused(
    tmp_path: Path, text: str | None, said: str
) -> None:
    path = tmp_path / "other.pem"
    if text is not None:
        path.write_text(text, encoding="ascii")
    with pytest.raises(ConfigError, match=said):
        certificates(str(path))
