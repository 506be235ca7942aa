"""Messages over HTTP: signed as receivers verify it, and sent again when they were not taken."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Receiver

from cdc.alarms.judge import Judge
from cdc.alarms.signature import signature, webhook_key
from cdc.alarms.webhook import Webhook
from cdc.config import parse_config
from cdc.errors import ConfigError
from cdc.metrics import catalog as m
from cdc.metrics import serve_catalog as s
from cdc.metrics.exposition import Sample
from tests.support.waiting import wait_until

SECRET = "whsec_" + b64encode(bytes(range(32))).decode()


class Server:
    """A receiver: ``status`` is what it answers, 400 to what has ``refused`` in it, and while
    ``hangs`` is set it answers nothing."""

    def __init__(self) -> None:
        self.status, self.hangs, self.refused = 204, threading.Event(), b"\0"
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.url = ""


@contextmanager
def receiving() -> Iterator[Server]:
    state, released = Server(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.requests.append((headers, body))
            if state.hangs.is_set():
                released.wait()
                return
            self.send_response(400 if state.refused in body else state.status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/token"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        released.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n", encoding="utf-8")
    path.chmod(0o600)
    return path


@contextmanager
def sending(server: Server, secret: Path, states: list[str]) -> Iterator[None]:
    """A process that tells how a view is, and to which a minute lasts a hundredth of a second."""
    webhook = Webhook(
        server.url,
        str(secret),
        "apply",
        lambda: [Sample(m.VIEW_STATE, ("shop", "v"), states[-1])],
        Judge(minute_s=0.01),
        every_s=0.01,
        first_pause_s=0.01,
    )
    webhook.start()
    try:
        yield
    finally:
        webhook.close()


def test_the_signature_is_that_of_the_vectors_of_standard_webhooks() -> None:
    key = webhook_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_receiver_verifies_what_is_sent(secret: Path) -> None:
    states = ["stalled"]
    with receiving() as server, sending(server, secret, states):
        wait_until(lambda: len(server.requests) == 1, "the message")
        states.append("idle")
        wait_until(lambda: len(server.requests) == 2, "the message that it is over")
    told: list[Any] = [Receiver(SECRET).verify(body, of) for of, body in server.requests]
    assert [one["type"] for one in told] == ["headwater.alarm.firing", "headwater.alarm.resolved"]
    assert told[0]["data"]["code"] == "HW008"
    assert told[0]["data"]["process"] == "apply"
    assert server.requests[0][0]["content-type"] == "application/json"


@pytest.mark.parametrize("status", [500, 302, 599])
def test_a_receiver_that_refuses_is_asked_again_with_the_same_message(
    secret: Path, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with receiving() as server, sending(server, secret, ["stalled"]):
        server.status = status
        wait_until(lambda: len(server.requests) > 2, "it to be tried again")
        server.status = 200
        refused = len(server.requests)
        wait_until(lambda: len(server.requests) > refused, "the message to be taken")
    assert len({headers["webhook-id"] for headers, _ in server.requests}) == 1
    assert all(headers.get("webhook-signature") for headers, _ in server.requests)
    said = capsys.readouterr().out
    assert f"answered {status}" in said
    assert "token" not in said, "the URL may hold one"


def test_that_messages_wait_is_one_message_however_long_its_own_receiver_is_away(
    secret: Path,
) -> None:
    """As where the messages about rows go to the same receiver: it does not feed itself."""
    asked: list[float] = []

    def waits() -> list[Sample]:
        asked.append(0.0)
        of = "shop", "big"
        seconds = Sample(s.ROW_ALERT_UNDELIVERED, of, 300.0 + len(asked))
        return [Sample(s.ROW_ALERT_STATE, of, "stalled"), seconds, Sample(s.ROW_ALERT_LIMIT, of, 1)]

    with receiving() as server:
        server.status = 503
        webhook = Webhook(server.url, str(secret), "serve", waits, Judge(0.0), first_pause_s=0.0)
        for now_s in range(1_000, 9_000, 400):
            webhook.look(now_s)
        assert len(server.requests) == len(asked) == 20
        server.status = 200
        webhook.look(9_000.0)
        webhook.look(9_400.0)
    assert len(server.requests) == 21, "it was taken"
    assert len({headers["webhook-id"] for headers, _ in server.requests}) == 1


def blocked_too(state: str = "stalled") -> list[Sample]:
    """HW010, a warning, before two critical alarms: HW008 and HW011."""
    return [
        Sample(m.VIEW_PARKED, ("shop", "u"), 1),
        Sample(m.VIEW_STATE, ("shop", "v"), state),
        Sample(m.VIEW_BLOCKED, ("shop", "w", "stopped"), 1),
    ]


def test_a_message_that_is_refused_holds_up_no_other_and_critical_ones_come_first(
    secret: Path,
) -> None:
    with receiving() as server:
        server.refused = b"HW008"
        webhook = Webhook(server.url, str(secret), "apply", blocked_too, Judge(0.0))
        webhook.look(1_000.0)
        codes = [json.loads(body)["data"]["code"] for _, body in server.requests]
        assert sorted(codes[:2]) == ["HW008", "HW011"]
        assert codes[2:] == ["HW010"]
        webhook.look(1_001.0)
        assert len(server.requests) == 3, "it is tried again later"


def test_while_nobody_answers_one_message_is_tried(
    secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "http://127.0.0.1:1/token"
    webhook = Webhook(url, str(secret), "apply", blocked_too, Judge(0.0))
    for at_s in (1_000.0, 1_001.0):
        webhook.look(at_s)
    assert capsys.readouterr().out.count("alarm_not_sent") == 1


def test_a_path_that_http_does_not_take_is_in_no_log_line(
    secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for url in ("http://127.0.0.1:1/to ken", "http://127.0.0.1:1/to\u00e9ken"):
        Webhook(url, str(secret), "apply", blocked_too, Judge(0.0)).look(1_000.0)
    said = capsys.readouterr().out
    assert said.count("alarm_not_sent") == 2
    assert "ken" not in said


def test_a_receiver_that_hangs_holds_nobody_up(secret: Path) -> None:
    """As long as a receiver hangs nothing is asked of the process, and it may end."""
    asked = 0

    def exported() -> list[Sample]:
        nonlocal asked
        asked += 1
        return [Sample(m.VIEW_STATE, ("shop", "v"), "stalled")]

    with receiving() as server:
        server.hangs.set()
        webhook = Webhook(server.url, str(secret), "apply", exported, Judge(0.01), every_s=0.01)
        webhook.start()
        wait_until(lambda: len(server.requests) == 1, "the message")
        while_it_hangs = asked
        assert [thread.name for thread in threading.enumerate()].count("alarms") == 1
        began = time.monotonic()
        webhook.close()
        assert time.monotonic() - began < 1, "an end does not wait for the receiver"
        assert asked == while_it_hangs


def test_the_secret_is_read_for_each_message_so_that_it_can_be_replaced(secret: Path) -> None:
    states = ["stalled"]
    other = "whsec_" + b64encode(b"k" * 24).decode()
    with receiving() as server, sending(server, secret, states):
        wait_until(lambda: len(server.requests) == 1, "the message")
        secret.write_text(other, encoding="utf-8")
        states.append("idle")
        wait_until(lambda: len(server.requests) == 2, "the second message")
    headers, body = server.requests[1]
    assert json.loads(body) == Receiver(other).verify(body, headers)


def configured(tmp_path: Path, **alerts: object) -> None:
    document = {
        "source": {"name": "shop", "dsn": "postgresql://nowhere", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "localhost:1"},
        "alerts": alerts,
    }
    parse_config(document, {}, tmp_path)


URL = "https://alarms.example.org/token"
ROWS = {"table": "public.orders", "when": "after.total > 1", "webhook": URL}


@pytest.mark.parametrize(
    ("alerts", "said"),
    [
        ({"webhook": URL}, "alerts.webhook: its messages are signed: set secret_file"),
        ({"webhook": "alarms.example.org", "secret_file": "secret"}, "alerts.webhook: is no http"),
        ({"webhook": "https://", "secret_file": "secret"}, "alerts.webhook: is no http"),
        *(
            ({"webhook": f"{URL}{mark}x", "secret_file": "secret"}, "alerts.webhook: is no http")
            for mark in (" ", "\n", "\x7f", "\u00e9")
        ),
        ({"webhook": URL, "secret_file": "none"}, "no such file: write whsec_"),
        ({"webhook": URL, "secret_file": "."}, "cannot be read: Is a directory"),
        ({"webhook": URL, "secret_file": "short"}, "is no secret: write whsec_ and at least 24"),
        ({"webhook": URL, "secret_file": "open"}, "every account of this machine can read it"),
        ({"lag_s": 0}, "alerts.lag_s"),
        ({"rows": {"big": ROWS}}, "alerts.rows.big.webhook: its messages are signed: set secret_f"),
        ({"rows": {"big": {**ROWS, "secret_file": "none"}}}, "alerts.rows.big.secret_file: "),
        ({"rows": {"big": {**ROWS, "when": ""}}}, "alerts.rows.big.when: is empty"),
        ({"rows": {"big": {**ROWS, "webhok": ""}}}, "rows.big.webhok: unknown setting: did you me"),
        ({"rows": {"big": {**ROWS, "give_up_after": ""}}}, "give_up_after: is 0"),
        ({"rows": {"big": {**ROWS, "webhook": "token"}}}, "alerts.rows.big.webhook: is no http"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    tmp_path: Path, secret: Path, alerts: dict[str, Any], said: str
) -> None:
    for name, text, mode in (("short", "whsec_c2hvcnQ=", 0o600), ("open", SECRET, 0o644)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(mode)
    with pytest.raises(ConfigError) as refused:
        configured(tmp_path, **alerts)
    assert said in str(refused.value)
    assert "c2hvcnQ" not in str(refused.value)
    assert "token" not in str(refused.value)
    configured(tmp_path, webhook=URL, secret_file=secret.name)
    configured(tmp_path, rows={"big": {**ROWS, "secret_file": secret.name}})
    configured(tmp_path, secret_file=secret.name, rows={"big": ROWS})
