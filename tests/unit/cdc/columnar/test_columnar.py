"""Frames by column give what frames one by one give: the same records, the same place after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdc.columnar import feed as columnar
from cdc.columnar.feed import ColumnarFeed
from cdc.columnar.partitions import partitions_for
from cdc.columnar.tuples import Column as Cells
from cdc.columnar.values import column_to_json
from cdc.errors import ProtocolError
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.events.records import Batch
from cdc.events.values.encoder import encoder
from cdc.protocol.messages import RelationMessage, Values
from cdc.protocol.relation import Column, Relation
from cdc.protocol.treatment import Treatment
from cdc.protocol.wire import Arrived
from cdc.source.columns.treated_columns import with_treatment
from cdc.topics import partition_for
from tests.support.events.forms import forms
from tests.support.events.random_frames import TYPES, Story, base, relation, streams

PARTITIONS = 3
TEXT, INT = base("text"), Column("id", base("int4"), -1, True)
CONTEXT = SourceContext("1", "s", "db")
NOW_US = 1_700_000_000_000_000


def transcriber(
    types: Sequence[str],
    row_now: Values | None = None,
    secret: str = "",
    treatment: Treatment | None = None,
    context: SourceContext = CONTEXT,
) -> Transcriber:
    """``secret`` is left out, or treated."""

    def resolve(message: RelationMessage, _xid: int, _lsn: int) -> Relation:
        if not secret:
            return relation(message.oid, types)
        found = (INT, *(Column(one.name, TEXT, -1, False) for one in message.columns[1:]))
        kept = tuple(one for one in found if one.name != secret or treatment)
        kept = tuple(with_treatment(one, treatment if one.name == secret else None) for one in kept)
        return Relation(message.oid, "public", message.table, "d", kept, ("id",))

    made = Transcriber(context, resolve, lambda _r, _k, _x: row_now, lambda _topic: PARTITIONS, 50)
    made.clock(NOW_US)
    return made


def written(batch: Batch) -> dict[str, list[tuple[Any, ...]]]:
    """Every record by topic, whichever way it was formed."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for topic, records in batch.records.items():
        rows = found.setdefault(topic, [])
        for record in records:
            if isinstance(record, dict):
                partition = record.get("partition", partition_for(record["key"], PARTITIONS))
                headers = record.get("headers")
                rows.append((record["key"], record["value"], partition, headers))
            else:
                rows += zip(
                    record.keys,
                    record.values,
                    record.partitions,
                    [None] * len(record.keys),
                    strict=True,
                )
                assert_closing(record.partitions, record.closing)
    return found


def assert_closing(partitions: list[int], closing: dict[int, int]) -> None:
    last = {partition: i for i, partition in enumerate(partitions)}
    assert {i: partitions.count(partition) for partition, i in last.items()} == closing


@settings(max_examples=300, deadline=None)
@given(streams(), st.just(OURS) | forms())
def test_a_stream_by_column_is_the_stream_frame_by_frame(
    stream: tuple[tuple[str, ...], list[list[bytes]]], form: Form
) -> None:
    types, reads = stream
    context = replace(CONTEXT, form=form)
    one, many = (transcriber(types, context=context) for _ in range(2))
    feed = ColumnarFeed(many, context, lambda _topic: PARTITIONS)
    least, columnar.LEAST_FRAMES = columnar.LEAST_FRAMES, 1  # type: ignore[misc]
    try:
        for read in reads:
            for frame in read:
                one.feed(frame)
            feed.feed(Arrived.of(read), NOW_US)
            singly, together = one.take(), many.take()
            assert written(together) == written(singly)
            assert together.count == singly.count
            assert together.awaited <= singly.awaited
            assert many.standing == one.standing
            assert (many.position, many.committed_lsn) == (one.position, one.committed_lsn)
    finally:
        columnar.LEAST_FRAMES = least  # type: ignore[misc]


@pytest.mark.parametrize(
    ("treatment", "sent"),
    [
        (None, None),
        (Treatment("mask", "***"), "***"),
        (Treatment("truncate", "2"), "SE"),
        (Treatment("hash", "k", b"0123456789abcdef"), "k:"),
        (Treatment("encrypt", "k", b"0123456789abcdef"), "k:"),
    ],
)
def test_a_column_that_must_not_leave_is_in_no_event_of_many(
    treatment: Treatment | None, sent: str | None
) -> None:
    names = (b"id", b"secret", b"name")
    described = pack(">H", 3) + b"".join(b"\0%b\0" % name + pack(">Ii", 25, -1) for name in names)
    story = Story(None, ())
    story.frame(b"R" + pack(">I", 1) + b"public\0t\0d" + described)
    story.begin()
    for i in range(300):
        cells = b"".join(
            b"t" + pack(">I", len(value)) + value
            for value in (b"%d" % i, b"SECRET%d" % i, b"n%d" % i)
        )
        kind = (b"IN", b"UN", b"DO")[i % 3]
        story.frame(kind[:1] + pack(">I", 1) + kind[1:] + pack(">H", 3) + cells)
    story.end()
    one, many = (transcriber((), secret="secret", treatment=treatment) for _ in range(2))
    for frame in story.frames:
        one.feed(frame)
    ColumnarFeed(many, CONTEXT, lambda _topic: PARTITIONS).feed(Arrived.of(story.frames), NOW_US)
    batch = many.take()
    assert any(not isinstance(record, dict) for of in batch.records.values() for record in of)
    together = written(batch)
    assert together == written(one.take())
    assert "SECRET" not in repr(together)
    assert repr(together).count('"secret":') == (0 if sent is None else 300)
    if sent is not None:
        assert repr(together).count(f'"secret":"{sent}') == 300
    assert "n299" in repr(together)


def plain_stream(rows: int) -> list[bytes]:
    """One transaction of many inserts."""
    story = Story(None, ())
    story.describe(1)
    story.begin()
    for i in range(rows):
        value = b"%d" % i
        cells = pack(">H", 1) + b"t" + pack(">I", len(value)) + value
        story.frame(b"I" + pack(">I", 1) + b"N" + cells)
    story.end()
    return story.frames


def test_a_long_stretch_goes_by_column_and_is_awaited_once_a_partition() -> None:
    made = transcriber(())
    ColumnarFeed(made, CONTEXT, lambda _topic: PARTITIONS).feed(
        Arrived.of(plain_stream(1000)), NOW_US
    )
    batch = made.take()
    assert batch.count == 1001
    assert batch.awaited == 1 + PARTITIONS
    assert made.position == (batch.count - 1 and made.standing.commit_lsn, 1000)


@pytest.mark.parametrize(
    ("at", "payload"),
    [
        (500, b"I" + pack(">I", 1) + b"N" + pack(">H", 2) + b"nn"),
        (500, b"I" + pack(">I", 1) + b"N" + pack(">H", 1) + b"t" + pack(">I", 9) + b"short"),
        (500, b"I" + pack(">I", 1) + b"N" + pack(">H", 1) + b"x"),
        (500, b"I" + pack(">I", 99) + b"N" + pack(">H", 1) + b"n"),
        (500, b"B" + pack(">QqI", 1, 1, 1)),
        (999, b"C" + pack(">BQQq", 0, 1, 2, 3)),
        (1, b"C" + pack(">BQQq", 0, 1, 2, 3)),
        (500, b"I"),
    ],
)
def test_what_is_malformed_is_refused_as_ever_and_nothing_before_it_is_lost(
    at: int, payload: bytes
) -> None:
    frames = plain_stream(1000)
    frames[at] = b"w" + pack(">QQq", 1, 1, 0) + payload
    one, many = transcriber(()), transcriber(())

    def refused(feed: Any, frames: Any) -> str:
        with pytest.raises(ProtocolError) as caught:
            feed(frames)
        return str(caught.value)

    def singly(frames: list[bytes]) -> None:
        for frame in frames:
            one.feed(frame)

    feed = ColumnarFeed(many, CONTEXT, lambda _topic: PARTITIONS)
    by_column = refused(lambda frames: feed.feed(Arrived.of(frames), NOW_US), frames)
    assert by_column == refused(singly, frames)
    assert written(many.take()) == written(one.take())


@pytest.mark.parametrize("kind", sorted(TYPES))
@settings(max_examples=50, deadline=None)
@given(data=st.data(), form=st.just(OURS) | forms())
def test_a_column_is_encoded_value_by_value(kind: str, data: st.DataObject, form: Form) -> None:
    type, typmod, known = TYPES[kind]
    values = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=20))
    each = encoder(type, typmod, form)
    json = column_to_json(type, typmod, form)(Cells(pa.array(values, pa.binary()), None, None))
    cells = [json.lead + cell.as_py() + json.trail for cell in json.cells]
    assert cells == [value if each is None else each(value) for value in values]


@pytest.mark.parametrize("kind", sorted(set(TYPES) - {"int4", "int8"}))
@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.binary(max_size=30), min_size=1, max_size=4), form=st.just(OURS) | forms()
)
@example(values=[b"\xc3", b"\xa9"], form=OURS)
@example(values=[b"1-2", b"1"], form=OURS)
@example(values=[b"1-2", b"1"], form=DEBEZIUM)
def test_any_bytes_are_encoded_or_refused_alike(kind: str, values: list[bytes], form: Form) -> None:
    type, typmod, _ = TYPES[kind]
    each = encoder(type, typmod, form)
    assert each is not None
    column = Cells(pa.array(values, pa.binary()), None, None)
    expected: list[bytes] | None
    try:
        expected = [each(value) for value in values]
    except ProtocolError:
        expected = None
    try:
        json = column_to_json(type, typmod, form)(column)
        found = [json.lead + cell.as_py() + json.trail for cell in json.cells]
    except ProtocolError:
        found = None
    assert found == expected


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20), st.integers(1, 12))
def test_partitions_are_those_of_the_java_client(keys: list[bytes], partitions: int) -> None:
    found = partitions_for(pa.array(keys, pa.binary()), partitions).tolist()
    assert found == [partition_for(key, partitions) for key in keys]
