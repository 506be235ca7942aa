"""Which row of a snapshot carries which marker, whatever the blocks they arrive in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from cdc.events.capture_dead_letters import whole
from cdc.events.envelope import SourceContext
from cdc.events.form import Form
from cdc.events.records import Header, Record
from cdc.kafka.broker import Record as Read
from cdc.kafka.bulk_producer import BulkProducer
from cdc.lsn import Position
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.routes.content import TopicContent
from cdc.routes.route import PLAIN, Route
from snapshots.oversized_rows import Letters
from snapshots.publisher import SnapshotPublisher
from snapshots.table_reader import Block

INT4 = TypeInfo(23, "pg_catalog", "int4", "base", "int4")
LSN = 0x1_0000_0050
LIMIT = 8_000
ADDED = TopicContent("row", "op")
SOURCE = ("version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "db", "schema", "table", "lsn")
BARELY_FITS = 7_500
"""Bytes of a value in an event that is no dead letter; with some hundred more it would be one."""


class Kept:
    """Keeps what it is given, in order."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes | None, dict[str, Any], int]] = []
        self.headers: list[tuple[str, dict[str, bytes | None]]] = []
        self.flushed = False
        self.pieces: list[tuple[str, Record]] = []
        self.largest_record = LIMIT

    def send(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes],
        timestamp_ms: int,
        partition: int = -1,
        headers: list[Header] | None = None,
    ) -> None:
        del timestamp_ms
        self.headers += [(topic, dict(headers or [])) for _ in keys]
        for key, value in zip(keys, values, strict=True):
            self.records.append((topic, key, json.loads(value), partition))

    def send_records(self, topic: str, records: Sequence[Record]) -> None:
        self.pieces += [(topic, record) for record in records]

    def flush(self) -> None:
        self.flushed = True

    def of(self, topic: str) -> list[dict[str, Any]]:
        return [value for name, _, value, _ in self.records if name == topic]


def relation(name: str, key: tuple[str, ...] = ("id",)) -> Relation:
    return Relation(1, "public", name, "d", (Column("id", INT4, -1, bool(key), False),), key)


def published(tables: dict[str, list[int]]) -> tuple[Kept, SnapshotPublisher]:
    """Tables of rows 0, 1, 2..., each given as the sizes of its blocks."""
    kept = Kept()
    context = SourceContext("1", "shop", "db")
    publisher = SnapshotPublisher(cast("BulkProducer", kept), context, LSN)
    for name, sizes in tables.items():
        publisher.start_table(relation(name), name, 1_000_000)
        start = 0
        for size in sizes:
            rows = [b"%d\n" % i for i in range(start, start + size)]
            publisher.publish(Block(b"".join(rows), size))
            start += size
    publisher.finish()
    return kept, publisher


FIRST, LAST, TRUE = "first", "last", "true"
FIRST_OF, LAST_OF = "first_in_data_collection", "last_in_data_collection"


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({"a": [3]}, {"a": [FIRST, TRUE, LAST]}),
        ({"a": [1, 1, 1]}, {"a": [FIRST, TRUE, LAST]}),
        ({"a": [1]}, {"a": [LAST]}),
        ({"a": [2, 1], "b": [3]}, {"a": [FIRST, TRUE, LAST_OF], "b": [FIRST_OF, TRUE, LAST]}),
        ({"a": [1], "b": [1], "c": [1]}, {"a": [FIRST], "b": [LAST_OF], "c": [LAST]}),
        ({"a": [], "b": [2]}, {"a": [], "b": [FIRST, LAST]}),
        ({"a": [2], "b": []}, {"a": [FIRST, LAST], "b": []}),
        ({"a": [2], "b": [], "c": [2]}, {"a": [FIRST, LAST_OF], "c": [FIRST_OF, LAST]}),
        ({"a": []}, {"a": []}),
    ],
)
def test_first_and_last_rows_are_marked_as_debezium_marks_them(
    tables: dict[str, list[int]], expected: dict[str, list[str]]
) -> None:
    kept, publisher = published(tables)
    for name, markers in expected.items():
        events = kept.of(name)
        assert [event["source"]["snapshot"] for event in events] == markers
        assert [event["after"]["id"] for event in events] == list(range(len(markers)))
    assert publisher.rows == sum(map(sum, tables.values()))
    assert kept.flushed


def test_a_row_stands_at_the_snapshots_lsn_below_every_change_there() -> None:
    kept, _ = published({"a": [1]})
    (event,) = kept.of("a")
    source = event["source"]
    assert (source["commit_lsn"], source["ordinal"], source["lsn"]) == (LSN, 0, LSN)
    assert (event["op"], event["before"]) == ("r", None)
    assert kept.of("shop.__schemas")[0]["schema_id"] == source["schema_id"]


def test_rows_without_a_key_all_go_to_one_partition() -> None:
    kept = Kept()
    publisher = SnapshotPublisher(cast("BulkProducer", kept), SourceContext("1", "shop", "db"), LSN)
    publisher.start_table(relation("a", ()), "a", 1)
    publisher.publish(Block(b"1\n2\n\\N\n", 3))
    publisher.finish()
    rows = [(key, partition) for topic, key, _, partition in kept.records if topic == "a"]
    assert rows == [(None, 0)] * 3


def test_clearing_truncates_every_partition_just_below_the_snapshot() -> None:
    kept = Kept()
    context = SourceContext("1", "shop", "db")
    publisher = SnapshotPublisher(cast("BulkProducer", kept), context, LSN)
    publisher.clear(relation("a"), "a", 3, 1)
    assert [partition for _, _, _, partition in kept.records] == [0, 1, 2]
    for event in kept.of("a"):
        assert event["op"] == "t"
        assert event["source"]["commit_lsn"] == LSN - 1


def wide(name: str, key: tuple[str, ...] = ("id",)) -> Relation:
    text = TypeInfo(25, "pg_catalog", "text", "base", "text")
    columns = relation(name, key).columns
    return Relation(1, "public", name, "d", (*columns, Column("a", text, -1, False, False)), key)


@pytest.mark.parametrize(
    ("blocks", "markers"),
    [
        (["ssL"], [FIRST, LAST]),
        (["Lss"], [FIRST, LAST]),
        (["s", "L", "sL"], [FIRST, LAST]),
        (["sLs", "LL"], [FIRST, LAST]),
        (["LsL"], [LAST]),
        (["L", "L"], []),
    ],
)
def test_a_row_that_is_too_large_is_never_the_first_or_last_of_its_topic(
    blocks: list[str], markers: list[str]
) -> None:
    kept, at = Kept(), 0
    producer = cast("BulkProducer", kept)
    letters = Letters("shop", producer)
    publisher = SnapshotPublisher(producer, SourceContext("1", "shop", "db"), LSN, letters)
    publisher.start_table(wide("a"), "a", 1_000_000)
    small, large = list[int](), list[int]()
    for block in blocks:
        lines = list[bytes]()
        for size in block:
            (large if size == "L" else small).append(at)
            lines.append(b"%d\t%b\n" % (at, b"x" * (30_000 if size == "L" else 5)))
            at += 1
        publisher.publish(Block(b"".join(lines), len(lines)))
    publisher.finish()
    assert [event["source"]["snapshot"] for event in kept.of("a")] == markers
    assert [event["after"]["id"] for event in kept.of("a")] == small
    assert (publisher.rows, publisher.dead_letters) == (len(small), len(large))
    found = list(whole(read_back(kept)))
    assert [json.loads(letter.value)["after"]["id"] for letter in found] == large
    for letter in found:
        event = json.loads(letter.value)
        assert (event["op"], event["source"]["snapshot"]) == ("r", TRUE)
        assert (letter.topic, letter.position, letter.missing) == ("a", Position(LSN, 0), 0)
        assert letter.key == b'{"id":%d}' % event["after"]["id"]


def read_back(kept: Kept) -> list[Read]:
    assert {topic for topic, _ in kept.pieces} <= {"shop.__dead_letters"}
    return [
        Read(record["partition"], at, 0, record["key"], record["value"],
             record["headers"])
        for at, (_, record) in enumerate(kept.pieces)
    ]  # fmt: skip


def test_rows_below_the_limit_are_not_looked_at_one_by_one_and_others_stay() -> None:
    """A value of more than half the limit may still fit."""
    kept = Kept()
    producer = cast("BulkProducer", kept)
    publisher = SnapshotPublisher(
        producer, SourceContext("1", "shop", "db"), LSN, Letters("shop", producer)
    )
    publisher.start_table(wide("a", ()), "a", 1)
    publisher.publish_unmarked(Block(b"1\t%b\n2\tx\n" % (b"y" * 6_000), 2))
    publisher.finish()
    assert [event["after"]["id"] for event in kept.of("a")] == [1, 2]
    assert (kept.pieces, publisher.dead_letters) == ([], 0)


def test_rows_beside_events_are_published_with_them_and_not_in_a_snapshot_of_its_own() -> None:
    kept = Kept()
    route = Route(PLAIN, ("public.a",), rows_topic="rows.{table}", rows=ADDED)
    context = SourceContext("1", "shop", "db", Form(routes=(route,)))
    publisher = SnapshotPublisher(cast("BulkProducer", kept), context, LSN)
    for name, topic in (("a", "shop.public.a"), ("b", "shop.public.b"), ("a", "snapshot.a")):
        publisher.start_table(relation(name), topic, 1_000_000)
        publisher.publish(Block(b"1\n2\n", 2))
        publisher.publish_unmarked(Block(b"3\n", 1))
    publisher.finish()
    assert [one["id"] for one in kept.of("rows.a")] == [1, 3, 2]
    assert {one["__op"] for one in kept.of("rows.a")} == {"r"}
    for topic in ("shop.public.a", "shop.public.b", "snapshot.a"):
        assert len(kept.of(topic)) == 3
    assert publisher.rows == 9


@pytest.mark.parametrize("next_one", ["table", "table with rows", "too large"])
def test_a_row_is_held_back_in_both_topics_or_in_none(next_one: str) -> None:
    """A chunk counts as done when the rows behind it were handed over."""
    kept = Kept()
    added = ",".join(f"source.{name}" for name in SOURCE)  # twice: a row larger than its event
    wider = TopicContent("row", added, headers=added)
    beside = ("public.a", "public.b") if next_one == "table with rows" else ("public.a",)
    route = Route(PLAIN, beside, rows_topic="rows.{table}", rows=wider)
    context = SourceContext("1", "shop", "db", Form(routes=(route,)))
    producer = cast("BulkProducer", kept)
    publisher = SnapshotPublisher(producer, context, LSN, Letters("shop", producer))
    publisher.start_table(wide("a"), "shop.public.a", 1_000_000)
    publisher.publish(Block(b"0\tx\n1\tx\n2\tx\n", 3))
    for topic in ("rows.a", "shop.public.a"):
        assert len(kept.of(topic)) == 2
    if next_one == "too large":
        publisher.publish(Block(b"3\t%b\n" % (b"x" * BARELY_FITS), 1))
    else:
        publisher.start_table(wide("b"), "shop.public.b", 1_000_000)
        publisher.publish(Block(b"3\tx\n", 1))
    for topic in ("rows.a", "shop.public.a"):
        assert len(kept.of(topic)) == 3
    publisher.finish()
    assert len(kept.of("rows.b")) == (next_one == "table with rows")
    assert bool(kept.pieces) == (next_one == "too large")


def test_a_header_that_marks_a_row_of_a_snapshot_marks_it_as_its_field_does() -> None:
    kept = Kept()
    form = Form(content="row", added="source.snapshot", headers="source.snapshot,op,xmin")
    publisher = SnapshotPublisher(
        cast("BulkProducer", kept), SourceContext("1", "shop", "db", form), LSN
    )
    for name in ("a", "b"):
        publisher.start_table(relation(name), name, 1_000_000)
        publisher.publish(Block(b"1\n2\n3\n", 3))
    publisher.finish()
    for name, markers in (("a", [FIRST, TRUE, LAST_OF]), ("b", [FIRST_OF, TRUE, LAST])):
        headers = [of for topic, of in kept.headers if topic == name]
        assert [one["__source_snapshot"] for one in headers] == [m.encode() for m in markers]
        assert [one["__source_snapshot"] for one in kept.of(name)] == markers
        assert {one["__op"] for one in headers} == {b"r"}
        assert {one["__xmin"] for one in headers} == {None}
        assert all(list(one)[-1] == "position" for one in headers)
