"""A message has its time as a whole, whatever the receiver does in it."""

from __future__ import annotations

import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme

from cdc.alarms import sender
from cdc.alarms.sender import Sender, reason_of

SECRET = "whsec_" + b64encode(bytes(range(32))).decode()
TAKEN = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


@contextmanager
def receiving(tls: ssl.SSLContext | None, is_slow: bool) -> Iterator[str]:
    """A receiver that takes a message; a slow one never ends its answer, and never pauses."""
    ending = threading.Event()

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True)
            with connection:
                taken = b""
                while not taken.endswith(b"{}"):
                    taken += connection.recv(65536)
                connection.sendall(b"HTTP/1.1 204 No Content\r\nX: " if is_slow else TAKEN)
                while is_slow and not ending.wait(0.02):
                    connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        kind = "http" if tls is None else "https"
        yield f"{kind}://localhost:{listener.getsockname()[1]}/"
        ending.set()
        thread.join(30)


@contextmanager
def slow_proxy(left: threading.Event) -> Iterator[str]:
    """One that does not end its answer to CONNECT for half a minute, and never pauses; ``left`` is
    set if whom it answers goes before that."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        pace = threading.Event()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            try:
                for _ in range(1_500):
                    connection.sendall(b"x")
                    pace.wait(0.02)
            except OSError:
                left.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(60)


def test_a_proxy_that_answers_a_byte_at_a_time_has_no_more_time_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    monkeypatch.setattr(sender, "_ANSWER_S", 0.5)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    left = threading.Event()
    with slow_proxy(left) as url:
        monkeypatch.setenv("https_proxy", url)
        with pytest.raises(TimeoutError):
            Sender("https://receiver.invalid/", str(secret)).send("msg_1", b"{}")
    assert left.is_set()


@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "tls"])
def test_a_receiver_that_answers_a_byte_at_a_time_has_no_more_time_than_others(
    with_tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    tls = None
    if with_tls:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(tls)
    with receiving(tls, is_slow=False) as url:
        Sender(url, str(secret)).send("msg_1", b"{}")
    monkeypatch.setattr(sender, "_ANSWER_S", 0.5)
    with receiving(tls, is_slow=True) as url:
        with pytest.raises(TimeoutError) as refused:
            Sender(url, str(secret)).send("msg_1", b"{}")
        assert reason_of(refused.value) == "no answer in 0.5 s"
