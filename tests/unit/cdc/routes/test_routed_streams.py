"""Tables with routes: by column and row by row, from the stream and from a snapshot each record is
the same, in the same partition; positions rise there, and a restart repeats and loses none."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from struct import pack
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.capture.duplicate_filter import KafkaReplay, Tail
from cdc.columnar import feed as columnar
from cdc.columnar.feed import ColumnarFeed
from cdc.columnar.formats.snapshot import snapshot_encoder
from cdc.columnar.snapshot_partitions import SnapshotPartitions
from cdc.errors import SourceError
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.events.records import Replay
from cdc.events.rows import RowEncoder
from cdc.kafka.broker import Record as Written
from cdc.kafka.partition_ends import scan
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Relation
from cdc.protocol.wire import Arrived
from cdc.routes.content import EVENTS, ROWS, TopicContent
from cdc.routes.route import PLAIN, Route
from cdc.topics import partition_for
from tests.support.events.random_frames import Story, relation, streams
from tests.support.events.transcribed import row
from tests.unit.cdc.columnar.test_columnar import written
from tests.unit.cdc.columnar.test_formats import Registry, copied
from tests.unit.snapshots.test_snapshot_columns import tables

NOW_US, PARTITIONS = 1_700_000_000_000_000, 3
FIRST = 'c0 "%b"'
ROUTES = {
    "all": (Route("s.all", ("public.*",), key_field="__table"),),
    "parted": (
        Route("{source}.both", ("public.one", "public.two"), "", "__table", partition_by=(FIRST,)),
    ),
    "mixed": (
        Route(
            "s.rows.{table}",
            ("public.two", "public.keyless"),
            content=TopicContent("row", "op,lsn", "op", "x-", "rewrite-with-tombstone"),
        ),
    ),
    "beside": (
        Route(
            "{source}.{schema}.{table}",
            ("public.*",),
            rows_topic="s.rows.{table}",
            rows=TopicContent("row", "op,lsn", "op", "x-", "rewrite-with-tombstone"),
        ),
    ),
    "both": (Route("s.all", ("public.*",), key_field="__table", rows_topic="s.rows", rows=ROWS),),
    "clouds": (Route("s.clouds", ("public.one",), content=TopicContent("cloudevents")),),
    "renamed": (Route("{table}s", ("public.two",), partition_by=(FIRST,)),),
}
FORMS = {
    "json": OURS,
    "debezium": DEBEZIUM,
    "row": Form(content="row", added="op,lsn"),
    "avro": replace(OURS, format="avro", schemas=True),
    "protobuf": replace(OURS, format="protobuf", schemas=True),
}
Stream = tuple[tuple[str, ...], list[list[bytes]]]
Rows = dict[str, list[tuple[Any, ...]]]


def context_of(form: Form) -> SourceContext:
    return SourceContext("1", "s", "db", form, Registry() if form.registered else None)


def made(context: SourceContext, types: Sequence[str], replay: Replay | None = None) -> Transcriber:
    def resolve(message: RelationMessage, _xid: int, _lsn: int) -> Relation:
        return relation(message.oid, types)

    found = Transcriber(
        context, resolve, lambda _r, _k, _x: None, lambda _: PARTITIONS, 50, replay
    )  # fmt: skip
    found.clock(NOW_US)
    return found


def by_column(form: Form, stream: Stream, replay: Replay | None = None) -> Rows:
    context = context_of(form)
    transcriber = made(context, stream[0], replay)
    feed = ColumnarFeed(transcriber, context, lambda _topic: PARTITIONS)
    least, columnar.LEAST_FRAMES = columnar.LEAST_FRAMES, 1  # type: ignore[misc]
    try:
        for read in stream[1]:
            feed.feed(Arrived.of(read), NOW_US)
    finally:
        columnar.LEAST_FRAMES = least  # type: ignore[misc]
    return written(transcriber.take())


def by_row(form: Form, stream: Stream) -> Rows:
    transcriber = made(context_of(form), stream[0])
    for read in stream[1]:
        for frame in read:
            transcriber.feed(frame)
    return written(transcriber.take())


@pytest.mark.parametrize(
    ("form", "routes"),
    [
        ("json", "all"),
        ("json", "parted"),
        ("json", "mixed"),
        ("json", "clouds"),
        ("json", "beside"),
        ("json", "both"),
        ("debezium", "all"),
        ("row", "parted"),
        ("avro", "mixed"),
        ("avro", "beside"),
        ("avro", "parted"),
        ("protobuf", "all"),
    ],
)
@settings(max_examples=20, deadline=None)
@given(stream=streams())
def test_records_are_the_same_by_column_and_by_row_and_their_order_is_that_of_commits(
    form: str, routes: str, stream: Stream
) -> None:
    routed = replace(FORMS[form], routes=ROUTES[routes])
    found = by_column(routed, stream)
    assert found == by_row(routed, stream)
    if form != "json" or routes not in ("all", "parted"):
        return
    plain = by_row(OURS, stream)
    assert sum(map(len, found.values())) == sum(map(len, plain.values()))
    positions = defaultdict[tuple[str, int], list[tuple[int, int]]](list)
    for topic in found.keys() - {"s.__schemas", "s.message"}:
        for _, value, partition, _ in found[topic]:
            if value is not None:
                source = json.loads(value)["source"]
                at = source["commit_lsn"], source["ordinal"]
                positions[topic, partition].append(at)
    assert all(one == sorted(one) for one in positions.values())


@settings(max_examples=30, deadline=None)
@given(stream=streams())
def test_each_topic_has_what_it_would_have_if_all_had_its_content(stream: Stream) -> None:
    mixed = by_column(replace(OURS, routes=ROUTES["mixed"]), stream)
    (route,) = ROUTES["mixed"]
    rows = Form(**route.content._asdict(), routes=(replace(route, content=EVENTS),))
    for topic, found in by_row(rows, stream).items():
        if topic.startswith("s.rows."):
            assert mixed.pop(topic) == found
    for topic, found in by_row(OURS, stream).items():
        if topic not in ("s.public.two", "s.public.keyless"):
            assert mixed.pop(topic) == found
    assert not mixed


@pytest.mark.parametrize("form", ["json", "debezium", "avro"])
@settings(max_examples=20, deadline=None)
@given(stream=streams())
def test_rows_beside_events_are_those_of_a_source_of_rows_and_the_events_are_as_without(
    form: str, stream: Stream
) -> None:
    (route,) = ROUTES["beside"]
    both = by_column(replace(FORMS[form], routes=(route,)), stream)
    found = {topic: both.pop(topic) for topic in [*both] if topic.startswith("s.rows.")}
    only = (replace(route.beside, content=EVENTS),)
    alone = by_row(replace(FORMS[form], **route.rows._asdict(), routes=only), stream)
    rows = {topic: one for topic, one in alone.items() if topic.startswith("s.rows.")}
    assert unframed(found, form) == unframed(rows, form)
    assert unframed(both, form) == unframed(by_row(FORMS[form], stream), form)


def unframed(rows: Rows, form: str) -> Rows:
    """Without the ids of a registry, which count up."""
    if form != "avro":
        return rows
    return {
        topic: [(key and key[5:], value and value[5:], *rest) for key, value, *rest in found]
        for topic, found in rows.items()
    }


@settings(max_examples=30, deadline=None)
@given(stream=streams())
def test_a_key_says_its_table_and_is_in_one_partition(stream: Stream) -> None:
    form = replace(OURS, routes=ROUTES["parted"])
    for key, value, partition, _ in by_column(form, stream).get("s.both", []):
        if key is None:
            continue
        parsed = json.loads(key)
        assert parsed["__table"] in ("s.public.one", "s.public.two")
        if value is not None:
            table = json.loads(value)["source"]["table"]
            assert parsed["__table"] == f"s.public.{table}"
        chosen = key[: key.index(b',"')] + b"}"  # of one or two columns, the first
        assert partition == partition_for(chosen, PARTITIONS)


@pytest.mark.parametrize(
    ("form", "routes"),
    [
        ("json", "all"),
        ("json", "parted"),
        ("row", "all"),
        ("json", "mixed"),
        ("json", "clouds"),
        ("json", "beside"),
        ("json", "both"),
    ],
)
@settings(max_examples=30, deadline=None)
@given(stream=streams(), data=st.data())
def test_after_a_crash_a_topic_of_several_tables_gets_what_it_lacks_and_nothing_twice(
    form: str, routes: str, stream: Stream, data: st.DataObject
) -> None:
    routed = replace(FORMS[form], routes=ROUTES[routes])
    whole = by_place(by_column(routed, stream))
    kept, tails = {}, {}
    for place, records in whole.items():
        count = data.draw(st.integers(0, len(records)))
        kept[place] = records[:count]
        found = [
            Written(place[1], i, 0, key, value, list(headers or []))
            for i, (key, value, _, headers) in enumerate(kept[place])
        ]
        last, made_it = scan(place[0], found)
        tails[place] = Tail(None)
        if last is not None:
            tails[place] = Tail(last.position, last.owes_tombstone and not made_it)
    counts = {topic: PARTITIONS for topic, _ in whole}
    again = by_place(by_column(routed, stream, KafkaReplay(0, tails, counts)))
    for place, records in whole.items():
        assert kept[place] + again.get(place, []) == records


def by_place(rows: Rows) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for topic in rows.keys() - {"s.__schemas"}:
        for record in rows[topic]:
            found[topic, record[2]].append(record)
    return found


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=20, deadline=None)
@given(table=tables(), routes=st.sampled_from(sorted(ROUTES)))
def test_rows_of_a_snapshot_have_the_keys_and_partitions_of_the_stream(
    form: str, routes: str, table: tuple[Relation, list[list[bytes | None]]]
) -> None:
    shape, rows = table
    routed = replace(FORMS[form], routes=ROUTES[routes])
    context = context_of(routed)
    encoder = snapshot_encoder(shape, context, 64, NOW_US)
    text = copied(rows)
    keys, _ = encoder.encode(text, len(rows))
    assert list(keys) == [encoder.encode(copied([one]), 1)[0][0] for one in rows]
    parts = SnapshotPartitions(shape, context)
    one_by_one = RowEncoder(shape, routed, "s")
    if not parts:
        return
    parts.take(text, len(rows), keys, PARTITIONS)
    chosen = [partition_for(one_by_one.partition_key(cast("Any", row)), PARTITIONS) for row in rows]
    last = dict(zip(keys, chosen, strict=True))
    assert parts.of(keys) == [last[key] for key in keys]


def test_a_table_that_comes_up_in_anothers_topic_of_rows_is_refused() -> None:
    route = Route(PLAIN, ("public.one",), rows_topic="s.public.two", rows=ROWS)
    context = context_of(replace(OURS, routes=(route,)))
    transcriber = made(context, ["text"])
    story = Story(None, ["text"])
    story.begin()
    story.describe(1)
    story.frame(b"I" + pack(">I", 1) + b"N" + row(b"1", b"x"))
    story.describe(2)
    story.frame(b"I" + pack(">I", 2) + b"N" + row(b"k", b"2024-02-29", b"x"))
    *frames, last = story.frames
    for frame in frames:
        transcriber.feed(frame)
    with pytest.raises(SourceError, match=r"would share the topic s\.public\.two, events and"):
        transcriber.feed(last)
