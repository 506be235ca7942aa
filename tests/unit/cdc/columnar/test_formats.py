"""Rows in a binary format by column give the bytes that rows one by one give, which say what the
JSON of the same form says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.columnar import feed as columnar
from cdc.columnar.feed import ColumnarFeed
from cdc.columnar.formats.snapshot import PackedSnapshotEncoder, snapshot_encoder
from cdc.columnar.snapshot import SNAPSHOT_MARKERS
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.form import DEBEZIUM, OURS, Form, Format
from cdc.events.formats.avro_reader import avro_reader
from cdc.events.formats.framing import schema_id_of
from cdc.events.formats.protobuf_reader import protobuf_reader
from cdc.events.formats.subjects import Role
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Relation
from cdc.protocol.wire import Arrived
from cdc.topics import FRAME_BYTES
from tests.support.events.random_frames import TYPES, relation, streams
from tests.unit.cdc.columnar.test_columnar import NOW_US, PARTITIONS, written

FORMATS: tuple[Format, ...] = ("avro", "json-schema", "protobuf")
FORMS = [replace(form, format=name, schemas=True) for name in FORMATS for form in (OURS, DEBEZIUM)]


class Registry:
    """Schemas by their ids, which are given in order."""

    def __init__(self) -> None:
        self.documents: list[str] = []

    def id_of(self, _topic: str, _role: Role, _record: str, _kind: str, document: str) -> int:
        if document not in self.documents:
            self.documents.append(document)
        return self.documents.index(document)

    def read(self, data: bytes | None) -> Any:
        if data is None:
            return None
        id_ = schema_id_of(data)
        assert id_ is not None
        document, payload = self.documents[id_], data[FRAME_BYTES:]
        if payload.startswith(b"{"):
            return json.loads(payload)
        if document.startswith("syntax"):
            return protobuf_reader(document)(payload)
        return avro_reader(document)(payload)


def transcriber(form: Form, registry: Registry | None, types: Sequence[str]) -> Transcriber:
    def resolve(message: RelationMessage, _xid: int, _lsn: int) -> Relation:
        return relation(message.oid, types)

    context = SourceContext("1", "s", "db", form, registry)
    made = Transcriber(context, resolve, lambda _r, _k, _x: None, lambda _topic: PARTITIONS, 50)
    made.clock(NOW_US)
    return made


def payload(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)["payload"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.format}-{form.times}")
@settings(max_examples=100, deadline=None)
@given(stream=streams())
def test_a_stream_by_column_is_the_stream_frame_by_frame_and_says_what_json_says(
    form: Form, stream: tuple[tuple[str, ...], list[list[bytes]]]
) -> None:
    types, reads = stream
    registry = Registry()
    one, many = (transcriber(form, registry, types) for _ in range(2))
    plain = transcriber(replace(form, format="json"), None, types)
    context = SourceContext("1", "s", "db", form, registry)
    feed = ColumnarFeed(many, context, lambda _topic: PARTITIONS)
    least, columnar.LEAST_FRAMES = columnar.LEAST_FRAMES, 1  # type: ignore[misc]
    try:
        for read in reads:
            for frame in read:
                one.feed(frame)
                plain.feed(frame)
            feed.feed(Arrived.of(read), NOW_US)
            singly = written(one.take())
            assert written(many.take()) == singly
            assert many.standing == one.standing
            in_json = written(plain.take())
            for topic in singly.keys() - {"s.__schemas"}:
                for packed, wrapped in zip(singly[topic], in_json[topic], strict=True):
                    assert registry.read(packed[0]) == payload(wrapped[0])
                    assert registry.read(packed[1]) == payload(wrapped[1])
    finally:
        columnar.LEAST_FRAMES = least  # type: ignore[misc]


def copied(rows: Sequence[Sequence[bytes | None]]) -> bytes:
    def field(value: bytes | None) -> bytes:
        if value is None:
            return b"\\N"
        return value.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\t", b"\\t")

    return b"".join(b"\t".join(map(field, row)) + b"\n" for row in rows)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.format}-{form.times}")
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_rows_of_a_snapshot_say_what_json_says(form: Form, data: st.DataObject) -> None:
    types = sorted(TYPES)
    shape = relation(2, types)
    kinds = [("text", "date")[i] if i < 2 else types[i - 2] for i in range(len(types) + 2)]
    rows = [
        [
            data.draw(st.sampled_from([*TYPES[kind][2], *([None] if i > 1 else [])]))
            for i, kind in enumerate(kinds)
        ]
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    registry = Registry()
    packed = snapshot_encoder(shape, SourceContext("1", "s", "db", form, registry), 64, NOW_US)
    assert isinstance(packed, PackedSnapshotEncoder)
    in_json = replace(form, format="json")
    plain = snapshot_encoder(shape, SourceContext("1", "s", "db", in_json), 64, NOW_US)
    keys, values = packed.encode(copied(rows), len(rows))
    plain_keys, plain_values = plain.encode(copied(rows), len(rows))
    assert [registry.read(key) for key in keys] == list(map(payload, plain_keys))
    assert [registry.read(value) for value in values] == list(map(payload, plain_values))
    for marker in SNAPSHOT_MARKERS:
        marked = registry.read(packed.marked(values[0], marker))
        assert marked == payload(plain.marked(plain_values[0], marker))
