"""Heartbeats: no event, counted when durable, kept in the mark."""

from __future__ import annotations

import json
from struct import pack

import psycopg
import pytest

from cdc.capture import source_probe as watch
from cdc.errors import LogError
from cdc.events.heartbeat import HEARTBEAT, Heartbeat, Pulse, heartbeat
from cdc.events.marks import Mark, decode_mark
from tests.support.events.transcribed import (
    TOPIC,
    begin,
    commit,
    describe,
    insert,
    parsed,
    transcribe,
    transcriber,
)


def message(prefix: str, content: bytes) -> bytes:
    return b"M" + pack(">BQ", 1, 150) + prefix.encode() + b"\0" + pack(">I", len(content)) + content


def test_a_heartbeat_is_no_event_and_takes_no_ordinal() -> None:
    made = transcriber()
    records = transcribe(
        made,
        begin(200), describe(), message(HEARTBEAT, b"1700000000123"), insert(b"1", b"x"),
        commit(200),
    )  # fmt: skip
    assert made.heartbeat == Heartbeat(200, 1_700_000_000_123)
    assert set(records) == {TOPIC, "s.__schemas"}
    assert parsed(records[TOPIC][0])["source"]["ordinal"] == 1


def test_a_transaction_of_a_heartbeat_alone_completes() -> None:
    made = transcriber()
    assert transcribe(made, begin(200), message(HEARTBEAT, b"5"), commit(200)) == {}
    assert made.committed_lsn == 208


def test_what_is_no_time_is_no_heartbeat_of_ours() -> None:
    for content in (b"hello", b"", b"9" * 5_000, b"9" * 400):  # no float holds the last one
        assert heartbeat(200, content, "") is None
        assert heartbeat(200, content + b" nonce", "nonce") is None


def test_a_heartbeat_that_this_run_did_not_write_is_none() -> None:
    assert heartbeat(200, b"1700000000123 nonce", "nonce") == Heartbeat(200, 1_700_000_000_123)
    for forged in (b"4700000000123", b"4700000000123 ", b"4700000000123 other", b"1 nonce x"):
        assert heartbeat(200, forged, "nonce") is None


def test_a_heartbeat_counts_when_everything_up_to_its_commit_is_durable() -> None:
    pulse = Pulse(None)
    pulse.seen(Heartbeat(200, 1_000))
    pulse.seen(Heartbeat(200, 1_000))
    pulse.seen(Heartbeat(300, 2_000))
    assert pulse.settle(200) is None
    assert pulse.settle(208) == 1_000
    assert pulse.settle(299) == 1_000
    assert pulse.settle(308) == 2_000
    pulse.seen(Heartbeat(200, 1_000))  # repeated by the next session
    assert pulse.settle(400) == 2_000


def test_heartbeats_that_wait_for_kafka_are_bounded() -> None:
    pulse = Pulse(None)
    for lsn in range(5_000):
        pulse.seen(Heartbeat(lsn + 1, lsn))
    assert pulse.settle(4_000) is None  # forgotten, never taken for a newer one
    assert pulse.settle(5_001) == 4_999


def test_a_mark_keeps_its_heartbeat_and_one_without_is_read() -> None:
    mark = Mark(100, {"t": {0: 5}}, "7", 1, "db", "slot", 1_234)
    encoded = mark.encode(0)
    assert decode_mark(encoded, "p") == mark
    document = json.loads(encoded)
    del document["heartbeat_ms"]
    assert decode_mark(json.dumps(document).encode(), "p").heartbeat_ms is None
    document["heartbeat_ms"] = "soon"
    with pytest.raises(LogError):
        decode_mark(json.dumps(document).encode(), "p")


def test_a_session_that_breaks_as_it_opens_ends_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def execute(self, _query: str) -> None:
            raise psycopg.OperationalError("the connection is lost")

        def close(self) -> None:
            watching.close()

    monkeypatch.setattr(watch, "connect", lambda *_, **__: Broken())
    watching = watch.Watch("", "slot", 1, lambda _: None)
    watching._run()  # raises nothing: it would try again
