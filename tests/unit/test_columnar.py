"""Frames by column give what frames one by one give: the same records, the same place after."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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
from cdc.events.records import Batch
from cdc.events.values import UNAVAILABLE, encoder
from cdc.protocol.messages import RelationMessage, Values
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.protocol.wire import Arrived
from cdc.topics import partition_for

PARTITIONS = 3
CONTEXT = SourceContext("1", "s", "db")
NOW_US = 1_700_000_000_000_000


def base(name: str) -> TypeInfo:
    return TypeInfo(1, "pg_catalog", name, "base", name)


ENUM = TypeInfo(1, "public", "mood", "enum", "enum")
INTEGERS = TypeInfo(1, "pg_catalog", "_int4", "array", "array", element=base("int4"))
SECONDS = [b"2024-02-29 12:34:56", b"0001-01-01 00:00:00", b"9999-12-31 23:59:59"]
ODD_TIMES = [b"infinity", b"-infinity", b"0044-03-15 01:02:03 BC", b"12345-01-02 00:00:00"]
# What PostgreSQL may send for each type, ordinary and odd.
TYPES: dict[str, tuple[TypeInfo, int, list[bytes]]] = {
    "int4": (base("int4"), -1, [b"0", b"-2147483648", b"7"]),
    "int8": (base("int8"), -1, [b"9223372036854775807", b"12"]),
    "bool": (base("bool"), -1, [b"t", b"f"]),
    "numeric": (base("numeric"), -1, [b"1.50", b"-0.0001", b"NaN", b"Infinity", b"-Infinity"]),
    "float8": (base("float8"), -1, [b"1e+20", b"-0", b"0.1", b"NaN", b"-Infinity", b"1.5e-07"]),
    "text": (base("text"), -1, [b"", b"plain", b'"quoted"', b"\\", b"a\nb", "é☃😀".encode()]),
    "varchar": (base("varchar"), -1, [UNAVAILABLE[1:-1], b"x"]),
    "jsonb": (base("jsonb"), -1, [b'{"a": [1, "b\\"c"]}', b"null", b'"\\ud800"']),
    "uuid": (base("uuid"), -1, [b"00000000-0000-0000-0000-000000000001"]),
    "enum": (ENUM, -1, [b"sad", "glück".encode()]),
    "date": (base("date"), -1, [b"2024-02-29", b"infinity", b"0044-03-15 BC", b"12345-01-01"]),
    "time": (base("time"), -1, [b"24:00:00", b"12:34:56.5"]),
    "timestamp": (
        base("timestamp"),
        -1,
        [*SECONDS, *ODD_TIMES, b"2024-02-29 12:34:56.1", SECONDS[0] + b".123456"],
    ),
    "timestamptz": (
        base("timestamptz"),
        -1,
        [t + f + b"+00" for t in SECONDS for f in (b"", b".1", b".123456")]
        + [b"infinity", b"0044-03-15 01:02:03.5+00 BC", b"12345-01-02 00:00:00+00"],
    ),
    "timestamptz0": (base("timestamptz"), 0, [t + b"+00" for t in SECONDS]),
    "timestamptz3": (
        base("timestamptz"),
        3,
        [t + f + b"+00" for t in SECONDS for f in (b"", b".12", b".123")],
    ),
    "bytea": (base("bytea"), -1, [b"\\x", b"\\x00ff10"]),
    "int4[]": (INTEGERS, -1, [b"{}", b"{1,2,NULL}", b"{{1,2},{3,4}}", b"[0:1]={1,2}"]),
}  # fmt: skip
TABLES: dict[int, tuple[str, str, tuple[str, ...]]] = {
    1: ("one", "d", ("int4",)),
    2: ("two", "d", ("text", "date")),
    3: ("keyless", "f", ()),
}


def relation(oid: int, types: Sequence[str]) -> Relation:
    name, identity, key = TABLES[oid]
    kinds = [*key, *types]
    columns = tuple(
        Column(f'c{i} "%b"', TYPES[kind][0], TYPES[kind][1], i < len(key))
        for i, kind in enumerate(kinds)
    )
    names = tuple(column.name for column in columns[: len(key)])
    return Relation(oid, "public", name, identity, columns, names)


def kinds_of(oid: int, types: Sequence[str]) -> list[str]:
    return [*TABLES[oid][2], *types]


class Story:
    """Frames of a random stream, written by one who knows only the protocol."""

    def __init__(self, draw: Any, types: Sequence[str]) -> None:
        self.draw = draw
        self.types = types
        self.frames: list[bytes] = []
        self.lsn = 1000
        self.open = False

    def frame(self, payload: bytes) -> None:
        self.lsn += 8
        self.frames.append(b"w" + pack(">QQq", self.lsn, self.lsn, 0) + payload)

    def describe(self, oid: int) -> None:
        self.frame(b"R" + pack(">I", oid) + b"public\0t\0d" + pack(">H", 0))

    def begin(self) -> None:
        self.commit = self.lsn + 10_000
        self.frame(b"B" + pack(">QqI", self.commit, self.lsn * 1000, self.lsn))

    def end(self) -> None:
        self.lsn = self.commit
        self.frame(b"C" + pack(">BQQq", 0, self.commit, self.commit + 8, self.lsn))

    def row(self, kinds: Sequence[str], key: int, new: bool) -> bytes:
        out = pack(">H", len(kinds))
        for i, kind in enumerate(kinds):
            values = [v for v in TYPES[kind][2] if len(v)]
            value = self.draw(
                st.sampled_from([*TYPES[kind][2], None, b"u"] if i >= key else values)
            )
            if value is None:
                out += b"n"
            elif value == b"u":
                out += b"u" if new else b"n"
            else:
                out += b"t" + pack(">I", len(value)) + value
        return out

    def key_image(self, kinds: Sequence[str], key: int) -> bytes:
        row = self.row(kinds[:key], key, False)
        return pack(">H", len(kinds)) + row[2:] + b"n" * (len(kinds) - key)

    def change(self, oid: int, op: str) -> None:
        kinds, key = kinds_of(oid, self.types), len(TABLES[oid][2])
        head = pack(">I", oid)
        if op == "insert":
            self.frame(b"I" + head + b"N" + self.row(kinds, key, False))
        elif op == "update":
            self.frame(b"U" + head + b"N" + self.row(kinds, key, True))
        elif op == "move" and key:
            old = b"K" + self.key_image(kinds, key)
            self.frame(b"U" + head + old + b"N" + self.row(kinds, key, True))
        elif op == "delete" and key:
            self.frame(b"D" + head + b"K" + self.key_image(kinds, key))
        elif op == "delete":
            self.frame(b"D" + head + b"O" + self.row(kinds, key, False))
        elif op == "truncate":
            self.frame(b"T" + pack(">IB", 1, 0) + head)
        elif op == "message":
            self.frame(b"M" + pack(">BQ", 1, self.lsn) + b"p\0" + pack(">I", 1) + b"x")


OPS = ["insert"] * 4 + ["update"] * 3 + ["delete"] * 2 + ["move", "truncate", "message"]


@st.composite
def streams(draw: st.DrawFn) -> tuple[tuple[str, ...], list[list[bytes]]]:
    """Column types, and a stream cut into reads."""
    types = tuple(draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=5)))
    story = Story(draw, types)
    for oid in TABLES:
        story.describe(oid)
    for _ in range(draw(st.integers(1, 5))):
        story.begin()
        if draw(st.integers(0, 5)) == 0:
            story.frame(b"O" + pack(">Q", 77) + b"origin\0")
        for _ in range(draw(st.integers(0, 12))):
            story.change(draw(st.sampled_from(sorted(TABLES))), draw(st.sampled_from(OPS)))
        story.end()
    cuts = sorted(draw(st.lists(st.integers(0, len(story.frames)), max_size=3)))
    edges = [0, *cuts, len(story.frames)]
    reads = [story.frames[a:b] for a, b in pairwise(edges)]
    return types, reads


def transcriber(types: Sequence[str], row_now: Values | None = None) -> Transcriber:
    def resolve(message: RelationMessage) -> Relation:
        return relation(message.oid, types)

    made = Transcriber(CONTEXT, resolve, lambda _r, _k: row_now, lambda _topic: PARTITIONS, 50)
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
                rows.append(
                    (record["key"], record["value"], record["timestamp"], partition, headers)
                )
            else:
                rows += zip(
                    record.keys,
                    record.values,
                    record.timestamps,
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
@given(streams())
def test_a_stream_by_column_is_the_stream_frame_by_frame(
    stream: tuple[tuple[str, ...], list[list[bytes]]],
) -> None:
    types, reads = stream
    one, many = transcriber(types), transcriber(types)
    feed = ColumnarFeed(many, CONTEXT, lambda _topic: PARTITIONS)
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
@given(data=st.data())
def test_a_column_is_encoded_value_by_value(kind: str, data: st.DataObject) -> None:
    type, typmod, known = TYPES[kind]
    values = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=20))
    each = encoder(type, typmod)
    json = column_to_json(type, typmod)(Cells(pa.array(values, pa.binary()), None, None))
    cells = [json.lead + cell.as_py() + json.trail for cell in json.cells]
    assert cells == [value if each is None else each(value) for value in values]


@pytest.mark.parametrize("kind", sorted(set(TYPES) - {"int4", "int8"}))
@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.binary(max_size=30), min_size=1, max_size=4))
@example(values=[b"\xc3", b"\xa9"])
@example(values=[b"1-2", b"1"])
def test_any_bytes_are_encoded_or_refused_alike(kind: str, values: list[bytes]) -> None:
    type, typmod, _ = TYPES[kind]
    each = encoder(type, typmod)
    assert each is not None
    column = Cells(pa.array(values, pa.binary()), None, None)
    expected: list[bytes] | None
    try:
        expected = [each(value) for value in values]
    except ProtocolError:
        expected = None
    try:
        json = column_to_json(type, typmod)(column)
        found = [json.lead + cell.as_py() + json.trail for cell in json.cells]
    except ProtocolError:
        found = None
    assert found == expected


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20), st.integers(1, 12))
def test_partitions_are_those_of_the_java_client(keys: list[bytes], partitions: int) -> None:
    found = partitions_for(pa.array(keys, pa.binary()), partitions).tolist()
    assert found == [partition_for(key, partitions) for key in keys]
