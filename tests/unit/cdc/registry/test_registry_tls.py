"""A registry that speaks TLS, one that does not, and certificates that nobody trusts."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from cdc.errors import RetryableError
from tests.support.servers.tls import Fronts
from tests.support.servers.told_registry import (
    REGISTER,
    Server,
    id_of,
    registry,
)


@pytest.fixture
def fronts(tmp_path: Path) -> Iterator[Fronts]:
    made = Fronts(tmp_path)
    yield made
    made.close()


def test_tls_is_spoken_with_a_registry_whose_certificate_is_trusted(
    server: Server, fronts: Fronts
) -> None:
    server.answers[REGISTER] = 200, {"id": 7}
    url = f"https://127.0.0.1:{fronts.stream(server.server_address[1])}"
    trusting = registry(server, url=url, ssl_ca_location=str(fronts.certificate))
    assert id_of(trusting) == 7
    trusting.close()


@pytest.mark.parametrize(
    ("scheme", "host", "trusted", "said", "hint"),
    [
        ("https", "127.0.0.1", False, "its certificate is refused: ", "Set ssl_ca_location of"),
        ("https", "localhost", True, "Hostname mismatch, certificate is", "Write the host in"),
        ("http", "127.0.0.1", True, "", "if it has TLS there, write https://"),
    ],
)
def test_a_handshake_that_fails_is_one_line_that_says_what_to_do(
    server: Server,
    fronts: Fronts,
    tmp_path: Path,
    scheme: str,
    host: str,
    trusted: bool,
    said: str,
    hint: str,
) -> None:
    url = f"{scheme}://{host}:{fronts.stream(server.server_address[1])}"
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    authority = fronts.certificate if trusted else other
    with pytest.raises(RetryableError) as told:
        id_of(registry(server, url=url, ssl_ca_location=str(authority)))
    assert f"subject s.public.t-key: the schema registry at {url} does not answer: " in str(
        told.value
    )
    assert said in told.value.message
    assert hint in told.value.hint
    assert "\n" not in str(told.value)


def test_tls_with_a_registry_that_has_none_is_told(server: Server) -> None:
    with pytest.raises(RetryableError) as told:
        id_of(registry(server, url=server.url.replace("http:", "https:")))
    assert "if it has no TLS there, write http://" in told.value.hint


def test_a_server_that_resets_the_connection_may_have_tls(server: Server) -> None:
    """It depends on what has come by then whether it resets or closes."""
    at_once = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets

    def reset() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                client.recv(1)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                client.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=reset, daemon=True).start()
        with pytest.raises(RetryableError) as told:
            id_of(registry(server, url=f"http://127.0.0.1:{listener.getsockname()[1]}"))
        listener.shutdown(socket.SHUT_RDWR)
    assert "if it has TLS there, write https://" in told.value.hint
