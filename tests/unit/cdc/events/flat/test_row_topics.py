"""Topics of rows: which records a change has, where they stand, and that a restart repeats none and
leaves none out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.capture.duplicate_filter import KafkaReplay, Tail
from cdc.columnar.feed import ColumnarFeed
from cdc.columnar.flat_snapshot import FlatSnapshotEncoder
from cdc.columnar.formats.snapshot import snapshot_encoder
from cdc.columnar.snapshot import SNAPSHOT_MARKERS
from cdc.errors import SourceError
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.flat.row_encoder import FlatEncoder
from cdc.events.form import DEBEZIUM, OURS, Deletes, Form
from cdc.events.records import Record, Replay
from cdc.kafka.broker import Record as Written
from cdc.kafka.partition_ends import scan
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Column, Relation
from cdc.protocol.wire import Arrived
from cdc.topics import partition_for, schemas_topic
from tests.support.events.random_frames import base, relation, streams
from tests.support.events.transcribed import (
    TOPIC,
    begin,
    commit,
    describe,
    insert,
    row,
    transcribe,
    transcriber,
    update,
)
from tests.unit.cdc.columnar.test_formats import Registry, copied
from tests.unit.snapshots.test_snapshot_columns import tables

MODES: tuple[Deletes, ...] = get_args(Deletes)
ROWS = Form(content="row", added="op,source.commit_lsn")
NOW_US, PARTITIONS = 1_700_000_000_000_000, 3
DELETE = b"D\0\0\0\1K" + row(b"1", None)


def seen(form: Form, *payloads: bytes) -> list[tuple[Any, Any, str]]:
    """Key, value and position of each record of the table, in order."""
    made = transcribe(transcriber(form=form), begin(200), describe(), *payloads, commit(200))
    found = []
    for record in made[TOPIC]:
        headers = dict(record.get("headers", []))
        assert list(headers)[-1] == "position"
        value = None if record["value"] is None else json.loads(record["value"])
        key = None if record["key"] is None else json.loads(record["key"])
        found.append((key, value, (headers["position"] or b"").decode()))
    return found


def at(ordinal: int) -> str:
    return f"{200:016X}{ordinal:08X}"


def test_a_row_is_the_value_with_the_fields_that_were_asked_for() -> None:
    ((key, value, position),) = seen(ROWS, insert(b"1", b"x"))
    assert (key, position.upper()) == ({"id": 1}, at(1))
    assert value == {"id": 1, "a": "x", "__op": "c", "__source_commit_lsn": 200}


def test_an_unchanged_large_value_is_the_placeholder() -> None:
    (_, (_, value, _)) = seen(ROWS, insert(b"1", b"x"), update(b"N", row(b"1", "unchanged")))
    assert value["a"] == "__debezium_unavailable_value"
    assert value["__op"] == "u"


@pytest.mark.parametrize(
    ("mode", "deleted"),
    [
        ("drop", []),
        ("tombstone", [None]),
        ("rewrite", [{"id": 1, "a": None, "__deleted": "true"}]),
        ("rewrite-with-tombstone", [{"id": 1, "a": None, "__deleted": "true"}, None]),
    ],
)
def test_what_there_is_of_a_delete_and_of_a_changed_key(mode: Deletes, deleted: list[Any]) -> None:
    form = Form(content="row", deletes=mode)
    mark = {"__deleted": "false"} if "rewrite" in mode else {}
    found = seen(form, insert(b"1", b"x"), DELETE, insert(b"2", b"y"))
    expected = [({"id": 1}, one) for one in deleted]
    assert [(key, value) for key, value, _ in found[1:-1]] == expected
    assert found[-1][1] == {"id": 2, "a": "y", **mark}
    assert found[-1][2].upper() == at(3)  # a delete has its place, also where nothing is left of it
    moved = seen(form, update(b"K", row(b"1", None), b"N", row(b"2", b"x")))
    assert [(key, value) for key, value, _ in moved[:-1]] == expected
    assert moved[-1][:2] == ({"id": 2}, {"id": 2, "a": "x", **mark})


def test_headers_that_were_asked_for_stand_before_the_position() -> None:
    form = Form(
        content="row", headers="op,source.lsn", header_prefix="x-", deletes="rewrite-with-tombstone"
    )
    moved = update(b"K", row(b"1", None), b"N", row(b"2", b"x"))
    made = transcribe(transcriber(form=form), begin(200), describe(), moved, DELETE, commit(200))
    told = [[name for name, _ in record.get("headers", [])] for record in made[TOPIC]]
    both = ["x-op", "x-source_lsn", "position"]
    assert told == [
        ["__debezium.newkey", *both], ["__debezium.newkey", "x-op", "position"],
        ["__debezium.oldkey", *both], both, ["x-op", "position"],
    ]  # fmt: skip
    assert [dict(record.get("headers", []))["x-op"] for record in made[TOPIC]] == [
        b"d", b"d", b"c", b"d", b"d",
    ]  # fmt: skip


def test_a_truncate_has_no_record() -> None:
    assert len(seen(ROWS, insert(b"1", b"x"), b"T\0\0\0\1\0\0\0\0\1")) == 1


def test_a_column_of_the_name_of_an_added_field_is_refused() -> None:
    columns = (Column("id", base("int4"), -1, True), Column("__op", base("text"), -1, False))
    table = Relation(1, "public", "t", "d", columns, ("id",))
    with pytest.raises(SourceError, match=r"public\.t has a column __op"):
        FlatEncoder(table, SourceContext("1", "s", "db", ROWS))


FORMS = [
    replace(form, content="row", deletes=mode, added="op,lsn")
    for form, modes in (
        (OURS, MODES),
        (DEBEZIUM, MODES[2:3]),
        (replace(DEBEZIUM, format="avro"), MODES[3:]),
    )
    for mode in modes
]


def names(form: Form) -> str:
    return f"{form.format}-{form.times}-{form.deletes}"


def streamed(
    form: Form, types: Sequence[str], reads: list[list[bytes]], replay: Replay | None
) -> dict[tuple[str, int], list[Record]]:
    def resolve(message: RelationMessage, _xid: int, _lsn: int) -> Relation:
        return relation(message.oid, types)

    context = SourceContext("1", "s", "db", form, Registry() if form.registered else None)
    made = Transcriber(
        context, resolve, lambda _r, _k, _x: None, lambda _: PARTITIONS, 50, replay
    )  # fmt: skip
    feed = ColumnarFeed(made, context, lambda _topic: PARTITIONS)
    for read in reads:
        feed.feed(Arrived.of(read), NOW_US)
    found: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for topic, records in made.take().records.items():
        for record in records:
            assert isinstance(record, dict)
            if topic != schemas_topic("s"):
                partition = record.get("partition", partition_for(record["key"], PARTITIONS))
                found[topic, partition].append(record)
    return found


def written(place: tuple[str, int], records: list[Record]) -> list[Written]:
    return [
        Written(place[1], i, 0, one["key"], one["value"], list(one.get("headers", [])))
        for i, one in enumerate(records)
    ]


@pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: f"{form.format}-{form.times}-{form.deletes}"
)
@settings(max_examples=60, deadline=None)
@given(stream=streams(), data=st.data())
def test_after_a_crash_each_partition_gets_what_it_lacks_and_nothing_twice(
    form: Form, stream: tuple[tuple[str, ...], list[list[bytes]]], data: st.DataObject
) -> None:
    whole = streamed(form, *stream, None)
    kept, tails = {}, {}
    for place, records in whole.items():
        count = data.draw(st.integers(0, len(records)))
        kept[place] = records[:count]
        last, made_it = scan(place[0], written(place, kept[place]))
        tails[place] = Tail(None)
        if last is not None:
            tails[place] = Tail(last.position, last.owes_tombstone and not made_it)
    counts = {topic: PARTITIONS for topic, _ in whole}
    again = streamed(form, *stream, KafkaReplay(0, tails, counts))
    for place, records in whole.items():
        assert kept[place] + again.get(place, []) == records


@settings(max_examples=80, deadline=None)
@given(tables(), st.sampled_from([f for f in FORMS if f.deletes != "drop"]), st.booleans())
def test_rows_of_a_snapshot_are_those_of_the_stream_by_column_and_one_by_one(
    table: tuple[Relation, list[list[bytes | None]]], form: Form, added: bool
) -> None:
    shape, rows = table
    form = form if added else replace(form, added="", deletes="tombstone")
    registry = Registry() if form.registered else None
    context = SourceContext("1", "s", "db", form, registry)
    encoder = snapshot_encoder(shape, context, 64, NOW_US)
    keys, values = encoder.encode(copied(rows), len(rows))
    singly = [encoder.encode(copied([one]), 1) for one in rows]
    assert list(keys) == [key for (key,), _ in singly]
    assert isinstance(encoder, FlatSnapshotEncoder)
    one_by_one = encoder._one_by_one(copied(rows), len(rows))
    assert (list(keys), values) == (list(one_by_one[0]), one_by_one[1])


@pytest.mark.parametrize("form", [f for f in FORMS if "rewrite" in f.deletes], ids=names)
def test_a_snapshots_row_is_marked_afterwards(form: Form) -> None:
    form = replace(form, added="source.snapshot,op")
    registry = Registry()
    context = SourceContext("1", "s", "db", form, registry if form.registered else None)
    encoder = snapshot_encoder(relation(1, ["text"]), context, 64, NOW_US)
    _, (value,) = encoder.encode(b"1\ta\n", 1)
    for marker in SNAPSHOT_MARKERS:
        marked = encoder.marked(value, marker)
        found = registry.read(marked) if form.registered else json.loads(marked)
        found = found.get("payload", found)
        assert (found["__source_snapshot"], found["__op"]) == (marker, "r")
        assert found["__deleted"] == "false"
