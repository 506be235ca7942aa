"""Logical messages that nobody expects: any role of the source may write one, of any size."""

from __future__ import annotations

import json
from hashlib import sha256
from re import findall
from struct import pack
from types import SimpleNamespace

import pytest

from cdc.capture.duplicate_filter import KafkaReplay, Tail
from cdc.events.capture_dead_letters import DeadLetters, whole
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.records import Record, weight
from cdc.lsn import Position
from cdc.protocol import pgoutput
from cdc.protocol.messages import LogicalMessage, Omitted
from tests.support.events.transcribed import (
    TOPIC,
    begin,
    commit,
    describe,
    frame,
    insert,
    relation,
    row,
)
from tests.unit.cdc.events.test_capture_dead_letters import LETTERS, LIMIT, read
from tests.unit.cdc.events.test_outbox import ID

MESSAGES = "s.message"
KEY = "k" * 30_000


def message(prefix: str, content: bytes) -> bytes:
    return b"M" + pack(">BQ", 1, 150) + prefix.encode() + b"\0" + pack(">I", len(content)) + content


def emitted(**changes: object) -> bytes:
    head = {"id": ID, "topic": "orders", "key": "k", "headers": None, "null": False, **changes}
    return message("headwater.outbox", json.dumps(head).encode() + b"\n{}")


def ddl(table: str) -> bytes:
    names = {"tag": "ALTER TABLE", "oid": 1, "schema": "public", "table": table}
    document = json.dumps({**names, "renamed": 0, "columns": None})
    return message("headwater.ddl", f"s3cret\n{document}".encode())


def transcribed(
    *payloads: bytes,
    rows: bool = False,
    replay: KafkaReplay | None = None,
    why: list[str] | None = None,
) -> dict[str, list[Record]]:
    """``why`` is given the reasons of what is published as it is."""
    reasons = [] if why is None else why
    topics = SimpleNamespace(
        ddl=lambda secret: "s.__ddl" if secret == "s3cret" else None,
        outbox=lambda topic: f"s.outbox.{topic}",
        is_others=lambda _topic: False,
        passed_over=lambda _lsn, reason: reasons.append(reason),
        hides_values=False,
    )
    made = Transcriber(
        SourceContext("1", "s", "db"), relation, lambda _r, _k, _x: None, lambda _t: 1, 50,
        replay, topics, letters=DeadLetters("s", LIMIT, lambda *_: None, rows),
    )  # fmt: skip
    for payload in (begin(200), describe(), *payloads, commit(200)):
        made.feed(frame(payload, 100))
    found = made.take().records
    found.pop("s.__schemas", None)
    return {topic: [r for r in of if isinstance(r, dict)] for topic, of in found.items()}


@pytest.mark.parametrize(
    ("payload", "topic"),
    [
        (message("p" * 30_000, b"x"), MESSAGES),
        (message("p", b"x" * 30_000), MESSAGES),
        (emitted(key=KEY), "s.outbox.orders"),
        (emitted(headers={"h" * 30_000: "x"}), "s.outbox.orders"),
        (emitted(headers={"h": "x" * 30_000}), "s.outbox.orders"),
        (ddl("t" * 30_000), "s.__ddl"),
    ],
    ids=["prefix", "content", "key", "header name", "header", "table"],
)
@pytest.mark.parametrize("rows", [False, True])
def test_a_message_of_any_form_is_cut_and_what_follows_flows(
    payload: bytes, topic: str, rows: bool
) -> None:
    records = transcribed(payload, insert(b"1", b"y"), rows=rows)
    assert set(records) == {LETTERS, TOPIC}
    assert all(weight(piece) <= LIMIT for piece in records[LETTERS])
    (letter,) = whole(read(records[LETTERS]))
    assert (letter.topic, letter.position, letter.missing) == (topic, Position(200, 1), 0)
    whatever = transcribed(insert(b"1", b"y"))
    assert [r["key"] for r in records[TOPIC]] == [r["key"] for r in whatever[TOPIC]]


def test_ddl_that_the_trigger_did_not_write_is_a_message() -> None:
    forged = message("headwater.ddl", b"guess\n" + ddl("t").rpartition(b"\n")[2])
    assert set(transcribed(ddl("t"))) == {"s.__ddl"}
    assert set(transcribed(forged)) == {MESSAGES}


def test_a_key_that_is_too_large_is_whole_in_the_letter_and_named_by_its_hash() -> None:
    records = transcribed(emitted(key=KEY, headers={"kind": "Paid"}))
    pieces = read(records[LETTERS])
    assert {dict(piece.headers)["sha256"] for piece in pieces} == {
        sha256(KEY.encode()).hexdigest().encode()
    }
    (letter,) = whole(pieces)
    assert (letter.key, letter.value, letter.tombstone) == (KEY.encode(), b"{}", False)
    assert letter.headers[3] == ("kind", b"Paid")
    (lost,) = whole(pieces[1:])
    assert lost.missing == 1
    (none,) = whole(read(transcribed(emitted(key=KEY, null=True))[LETTERS]))
    assert (none.key, none.value, none.tombstone) == (KEY.encode(), b"", True)


def test_rows_with_large_keys_are_cut_with_the_tombstones_that_nothing_needs() -> None:
    deleted = b"D" + pack(">I", 1) + b"K" + row(KEY.encode(), None)
    records = transcribed(insert(KEY.encode(), b"y"), deleted, insert(b"2", b"z"), rows=True)
    letters = list(whole(read(records[LETTERS])))
    ops = [operation for letter in letters for operation in findall(rb'"op":"(.)"', letter.value)]
    assert ops == [b"c", b"d"]
    assert {letter.key for letter in letters} == {b'{"id":%b}' % KEY.encode()}
    assert [record["key"] for record in records[TOPIC]] == [b'{"id":2}']


def test_the_old_key_of_a_row_that_moved_to_a_large_key_has_its_tombstone() -> None:
    moved = b"U" + pack(">I", 1) + b"K" + row(b"1", None) + b"N" + row(KEY.encode(), b"y")
    records = transcribed(insert(b"1", b"x"), moved, rows=True)
    _, tombstone = records[TOPIC]
    assert (tombstone["key"], tombstone["value"]) == (b'{"id":1}', None)
    assert tombstone.get("headers") == [("position", Position(200, 2).hex().encode())]
    assert [letter.position.ordinal for letter in whole(read(records[LETTERS]))] == [2, 3]


def test_a_letter_with_a_large_key_stands_once_after_a_restart() -> None:
    payloads = emitted(key=KEY), insert(b"1", b"y")
    pieces = read(transcribed(*payloads)[LETTERS])
    for kept in (1, len(pieces)):
        unfinished = kept < len(pieces)
        tails = {
            (LETTERS, 0): Tail(Position(200, 1)),
            (TOPIC, 0): Tail(None),
        }
        held = set() if unfinished else {("s.outbox.orders", Position(200, 1))}
        replay = KafkaReplay(100, tails, {LETTERS: 1, TOPIC: 1, "s.outbox.orders": 1}, held)
        again = transcribed(*payloads, replay=replay)
        (letter,) = whole([*pieces[:kept], *read(again.get(LETTERS, []))])
        assert (letter.missing, letter.key) == (0, KEY.encode())
        assert len(again[TOPIC]) == 1


def test_of_a_message_above_the_limit_there_is_its_size_and_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pgoutput, "LARGEST_MESSAGE_BYTES", 1_000)
    content = b"x" * 2_000
    decoded = pgoutput.decode(message("p" * 500, content))
    digest = sha256(content).hexdigest()
    assert decoded == LogicalMessage(True, 150, "p" * 200, b"", Omitted(2_000, digest))
    why = list[str]()
    (other,) = transcribed(message("headwater.ddl", content), why=why)[MESSAGES]
    (record,) = transcribed(message("headwater.outbox", content), why=why)[MESSAGES]
    assert why == ["it has 2000 bytes: only its size and hash are published"] * 2
    assert json.loads(other["value"] or b"")["message"]["omitted"]["sha256"] == digest
    assert json.loads(record["value"] or b"")["message"] == {
        "prefix": "headwater.outbox",
        "content": None,
        "omitted": {"bytes": 2_000, "sha256": digest},
    }
