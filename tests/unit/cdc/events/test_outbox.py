"""Emitted events: what a message's content becomes, and what is no such message."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

import pytest

from cdc.capture.duplicate_filter import KafkaReplay, Tail
from cdc.errors import LogError
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.outbox import PREFIX
from cdc.events.records import Record
from cdc.kafka.broker import Record as Read
from cdc.kafka.partition_ends import Streamed, streamed
from cdc.lsn import Position, parse_position
from tests.support.events.transcribed import begin, commit, frame, relation

ID = "8b9f6a0e-3a52-4c1e-9b63-0a5f7a7f1d10"


class Topics:
    """Every topic is one, but ``taken``, and ``others``, which another source publishes."""

    def __init__(self) -> None:
        self.odd: list[int] = []

    def ddl(self, secret: str) -> str | None:
        return "s.__ddl" if secret == "s3" else None

    def outbox(self, topic: str) -> str | None:
        return None if topic in ("taken", "others") else f"s.outbox.{topic}"

    def is_others(self, topic: str) -> bool:
        return topic == "others"

    hides_values = False

    def passed_over(self, lsn: int, why: str) -> None:
        del why
        self.odd.append(lsn)


def content(payload: bytes = b"{}", **changes: Any) -> bytes:
    head = {"id": ID, "topic": "orders", "key": "k", "headers": None, "null": False, **changes}
    return json.dumps(head).encode() + b"\n" + payload


def message(body: bytes, transactional: bool = True) -> bytes:
    head = b"M" + pack(">BQ", transactional, 150) + PREFIX.encode() + b"\0"
    return head + pack(">I", len(body)) + body


def transcribed(
    *bodies: bytes, replay: KafkaReplay | None = None, topics: Topics | None = None
) -> dict[str, list[Record]]:
    topics = topics or Topics()
    made = Transcriber(
        SourceContext("1", "s", "db"), relation, lambda _r, _k, _x: None, lambda _t: 3, 50,
        replay, topics,
    )  # fmt: skip
    for payload in (begin(200), *map(message, bodies), commit(200)):
        made.feed(frame(payload, 100))
    assert made.committed_lsn == 208
    return {
        topic: [record for record in records if isinstance(record, dict)]
        for topic, records in made.take().records.items()
    }


def test_an_emitted_event_is_its_payload_with_its_position_in_a_header() -> None:
    body = content(b'{"a":\n1}', headers={"kind": "Paid", "\u00fc": "\u00e9"})
    (record,) = transcribed(body)["s.outbox.orders"]
    assert record == {
        "key": b"k",
        "value": b'{"a":\n1}',
        "headers": [
            ("id", ID.encode()),
            ("position", b"00000000000000C800000001"),
            ("commit_ms", b"946684801000"),
            ("kind", b"Paid"),
            ("\u00fc", "\u00e9".encode()),
        ],
    }
    assert parse_position(b"00000000000000C800000001") == Position(200, 1)


def test_no_payload_is_a_tombstone_and_no_key_is_partition_0() -> None:
    bodies = (content(b"", null=True), content(key=None), content(key=""))
    tombstone, keyless, empty = transcribed(*bodies)["s.outbox.orders"]
    assert (tombstone["key"], tombstone["value"]) == (b"k", None)
    assert (keyless["key"], keyless["partition"]) == (None, 0)
    assert (empty["key"], "partition" in empty) == (b"", True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"garbage",
        b"\xff\n",
        b"{}\n",
        b"[" * 100_000 + b"\n",
        content().replace(b"\n", b""),
        content(topic="a.b"),
        content(topic=7),
        content(topic="a\n"),
        content(key=7),
        content(headers={"id": "x"}),
        content(headers={"commit_ms": "x"}),
        content(headers={"a": 1}),
        content(headers=[1]),
        content(id="\ud800"),
        content(headers={"\ud800": "x"}),
        content(headers={"position\0": "x"}),
        content(topic="taken"),
    ],
)  # fmt: skip
def test_what_emit_does_not_write_stays_a_logical_message(body: bytes) -> None:
    records = transcribed(body, content())
    assert list(records) == ["s.message", "s.outbox.orders"]
    assert records["s.message"][0]["key"] == b'{"prefix":"headwater.outbox"}'


def test_what_another_source_publishes_is_no_fault_and_stands_among_messages_all_the_same() -> None:
    topics = Topics()
    records = transcribed(content(topic="others"), content(topic="taken"), topics=topics)
    assert ([len(of) for of in records.values()], len(topics.odd)) == ([2], 1)


def test_a_tail_reads_the_position_of_a_tombstone_from_its_header() -> None:
    record = Read(0, 7, 0, b"k", None, [("position", b"00000000000000C800000003")])
    assert streamed("s.outbox.orders", record) == Streamed(Position(200, 3), False)
    with pytest.raises(LogError, match="offset 7 was not written by"):
        streamed("s.outbox.orders", record._replace(headers=[("position", b"7")]))


def test_a_header_part_of_an_event_is_no_fault_of_the_topic() -> None:
    for part in (b"left", b"7", b"1/2", b""):
        headers = [("id", b"7"), ("position", b"00000000000000C800000002"), ("part", part)]
        tail = streamed("s.outbox.orders", Read(0, 7, 0, b"k", b"{}", headers))
        assert tail is not None
        tails = {("s.outbox.orders", p): Tail(tail.position, tail.owes_tombstone) for p in range(3)}
        replay = KafkaReplay(100, tails, {"s.outbox.orders": 3})
        bodies = (content(b"1"), content(b"2", headers={"part": part.decode()}), content(b"3"))
        (record,) = transcribed(*bodies, replay=replay)["s.outbox.orders"]
        assert record["value"] == b"3"


def test_events_that_kafka_holds_are_not_published_again() -> None:
    tails = {("s.outbox.orders", p): Tail(Position(200, 2)) for p in range(3)}
    replay = KafkaReplay(100, tails, {"s.outbox.orders": 3})
    bodies = (content(b"1"), content(b"2"), content(b"3"))
    (record,) = transcribed(*bodies, replay=replay)["s.outbox.orders"]
    assert record["value"] == b"3"
