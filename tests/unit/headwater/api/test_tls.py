"""`[serve] tls_certificate`: real handshakes with the server as it is set up."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvicorn

from cdc.config import Serve
from cdc.errors import UsageError
from headwater.api.certificate import Certificate
from headwater.api.guard import Guard
from headwater.api.server import _settings, listening
from stack.ports import free_port
from tests.support.waiting import wait_until


async def _app(scope: Any, _: Any, send: Any) -> None:
    """Answers with the scheme."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


def settings(folder: Path) -> Serve:
    return Serve(
        listen=f"127.0.0.1:{free_port(set())}",
        tls_certificate=str(folder / "cert.pem"),
        tls_key=str(folder / "key.pem"),
    )


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def port(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a server with a certificate for localhost."""
    folder = tmp_path_factory.mktemp("tls")
    write(authority.issue_cert("localhost"), folder)
    serve = settings(folder)
    taken = listening(serve)
    server = uvicorn.Server(_settings(serve, Guard(_app, serve), Certificate(serve)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server to start")
    yield taken.getsockname()[1]
    server.should_exit = True
    thread.join(30)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def get(port: int, context: ssl.SSLContext, name: str = "localhost") -> http.client.HTTPResponse:
    raw = socket.create_connection(("127.0.0.1", port), timeout=30)
    conn = http.client.HTTPConnection("localhost", port, timeout=30)
    conn.sock = context.wrap_socket(raw, server_hostname=name)
    conn.request("GET", "/")
    return conn.getresponse()


def test_who_trusts_the_authority_is_served_and_told_to_stay_with_tls(
    port: int, authority: trustme.CA
) -> None:
    answer = get(port, trusting(authority))
    assert (answer.status, answer.read()) == (200, b"https")
    assert "max-age" in answer.headers["strict-transport-security"]


def test_another_authority_or_name_is_not_taken_for_ours(port: int, authority: trustme.CA) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        get(port, trusting(trustme.CA()))
    with pytest.raises(ssl.SSLCertVerificationError):
        get(port, trusting(authority), "other.example")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_what_is_no_tls_or_an_old_one_gets_no_answer(port: int, authority: trustme.CA) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as conn:
        conn.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            answer = conn.recv(1_000)
        except ConnectionError:
            answer = b""
    assert b"HTTP/1.1 200" not in answer
    old = trusting(authority)
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        get(port, old)
    assert get(port, trusting(authority)).status == 200, "others are served meanwhile"


def test_a_key_of_another_certificate_is_refused_at_the_start(
    authority: trustme.CA, tmp_path: Path
) -> None:
    authority.issue_cert("localhost").cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.issue_cert("localhost").private_key_pem.write_to_path(tmp_path / "key.pem")
    with pytest.raises(UsageError, match="tls_certificate"):
        Certificate(settings(tmp_path))


def test_a_renewed_certificate_greets_who_comes_next(authority: trustme.CA, tmp_path: Path) -> None:
    """The files are written one after the other: what does not belong together is not used."""
    before, after = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    write(before, tmp_path)
    certificate = Certificate(settings(tmp_path))
    first = greeting(certificate.context, authority)
    certificate.look()
    after.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.look()
    assert greeting(certificate.context, authority) == first
    write(after, tmp_path)
    certificate.look()
    renewed = greeting(certificate.context, authority)
    assert renewed != first
    (tmp_path / "key.pem").unlink()
    certificate.look()
    assert greeting(certificate.context, authority) == renewed


def write(made: trustme.LeafCert, folder: Path) -> None:
    made.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    made.private_key_pem.write_to_path(folder / "key.pem")


def greeting(context: ssl.SSLContext, authority: trustme.CA) -> bytes:
    """The certificate that a client is shown."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = trusting(authority).wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    shown = client.getpeercert(binary_form=True)
    assert shown
    return shown
