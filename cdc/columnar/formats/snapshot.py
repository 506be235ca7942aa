"""A snapshot's rows in a format whose schemas are in a registry: see ``cdc.columnar.snapshot``."""

from __future__ import annotations

import json
from collections.abc import Callable

from cdc.columnar.arrays import texts_of
from cdc.columnar.cloud_snapshot import CloudSnapshotEncoder
from cdc.columnar.copy_text import copied_columns, copied_rows
from cdc.columnar.flat_snapshot import FlatSnapshotEncoder
from cdc.columnar.formats.avro_events import AvroRows
from cdc.columnar.json_objects import joined
from cdc.columnar.snapshot import MOST_BYTES, SNAPSHOT_MARKERS, SnapshotEncoder
from cdc.events.codes import SNAPSHOT, quoted
from cdc.events.envelope import ChangeEncoder, SourceContext, Transaction, clock
from cdc.events.formats.avro_writer import NULL, PRESENT
from cdc.events.formats.framing import HEAD_BYTES
from cdc.events.formats.packing import Packing, packed_schema, table_packing
from cdc.events.formats.protobuf_messages import protobuf_file
from cdc.events.formats.protobuf_reader import protobuf_reader
from cdc.events.formats.protobuf_text import file_text
from cdc.events.formats.protobuf_writer import protobuf_writer
from cdc.protocol.relation import Relation

Encoded = tuple[list[bytes] | list[None], list[bytes]]


class PackedSnapshotEncoder:
    """What ``SnapshotEncoder`` is for JSON."""

    __slots__ = (
        "_avro",
        "_events",
        "_json",
        "_lsn",
        "_packing",
        "_protobuf",
        "_read_us",
        "_tails",
        "_width",
    )

    def __init__(
        self,
        relation: Relation,
        context: SourceContext,
        lsn: int,
        read_us: int,
        packing: Packing,
    ) -> None:
        self._packing, self._lsn, self._read_us = packing, lsn, read_us
        self._width = len(relation.columns)
        self._json = SnapshotEncoder(relation, context, lsn, read_us)
        is_avro = context.form.format == "avro"
        self._avro = AvroRows(relation, context, packing) if is_avro else None
        self._events = ChangeEncoder(relation, context)
        is_protobuf = context.form.format == "protobuf"
        self._protobuf = _marking(relation, context) if is_protobuf else None
        self._tails = {marker: self._tail(marker) for marker in reversed(SNAPSHOT_MARKERS)}

    def encode(self, copied: bytes, rows: int) -> Encoded:
        """See ``SnapshotEncoder``."""
        return self._by_column(copied, rows) or self._one_by_one(copied, rows)

    def marked(self, value: bytes, marker: str) -> bytes:
        """See ``SnapshotEncoder``."""
        if self._protobuf is not None:
            return self._packing.value_head + self._protobuf(value[HEAD_BYTES:], marker)
        return value.removesuffix(self._tails["true"]) + self._tails[marker]

    def _tail(self, marker: str) -> bytes:
        """What follows a row."""
        self._events.begin(Transaction(self._lsn, self._read_us, None, None), marker)
        if self._avro is None:
            return self._json.tail(marker)
        images = len(self._packing.value_head) + len(NULL + NULL)
        return self._packing.value(self._event(b"null"))[images:]

    def _event(self, row: bytes) -> bytes:
        closing = clock(self._read_us)
        return self._events.value(b"null", row, quoted(SNAPSHOT), self._lsn, 0, closing)

    def _by_column(self, copied: bytes, rows: int) -> Encoded | None:
        if self._avro is None:
            return self._packed(self._json.by_column(copied, rows))
        if len(copied) > MOST_BYTES:
            return None
        made = self._avro.encode(copied_columns(copied, rows, self._width), rows)
        if made is None:
            return None
        keys, row = made
        head = self._packing.value_head + NULL + PRESENT
        values = texts_of(joined([head, *row, self._tails["true"]], rows))
        return [None] * rows if keys is None else texts_of(keys), values

    def _packed(self, made: Encoded | None) -> Encoded | None:
        """Of JSON, row by row."""
        if made is None:
            return None
        keys, values = made
        packing = self._packing
        framed = [key if key is None else packing.key(key) for key in keys]
        return framed, list(map(packing.value, values))  # type: ignore[return-value]

    def _one_by_one(self, copied: bytes, rows: int) -> Encoded:
        keys, values = list[bytes](), list[bytes]()
        events, packing = self._events, self._packing
        for row in copied_rows(copied, self._width):
            if (key := events.rows.key(row)) is not None:
                keys.append(packing.key(key))
            values.append(packing.value(self._event(events.rows.row(row))))
        return keys or [None] * rows, values


def _marking(relation: Relation, context: SourceContext) -> Callable[[bytes, str], bytes]:
    """What writes an event of Protobuf anew, whose length says how long the marker is."""
    file = protobuf_file(packed_schema(relation, context.name, context.form))
    read, write = protobuf_reader(file_text(file)), protobuf_writer(file.message)

    def marked(value: bytes, marker: str) -> bytes:
        event = read(value)
        event["source"]["snapshot"] = marker
        return write(json.dumps(event).encode())

    return marked


RowsEncoder = SnapshotEncoder | PackedSnapshotEncoder | FlatSnapshotEncoder | CloudSnapshotEncoder


def snapshot_encoder(
    relation: Relation, context: SourceContext, lsn: int, read_us: int
) -> RowsEncoder:
    """The encoder of a table's rows, in the form of the source's topics."""
    packing = table_packing(relation, context.name, context.form, context.registry)
    if context.form.content == "cloudevents":
        return CloudSnapshotEncoder(relation, context, lsn, read_us)
    if context.form.has_rows:
        return FlatSnapshotEncoder(relation, context, lsn, read_us, packing)
    if packing is None:
        return SnapshotEncoder(relation, context, lsn, read_us)
    return PackedSnapshotEncoder(relation, context, lsn, read_us, packing)
