"""What one topic gets of a table's changes: records in the content that it has. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.events.change_encoder import Encoder, change_encoder, content_headers
from cdc.events.codes import DELETE, TRUNCATE, quoted
from cdc.events.envelope import SourceContext
from cdc.events.flat.row_encoder import FlatEncoder
from cdc.events.formats.packing import table_packing
from cdc.events.records import Header, Record, row_record, truncate_records
from cdc.events.unpublished_records import Outgoing
from cdc.lsn import Position
from cdc.protocol.messages import Value, Values
from cdc.protocol.relation import Relation
from cdc.routes.route import Place
from cdc.topics import partition_for

_DELETE, _TRUNCATE = map(quoted, (DELETE, TRUNCATE))


class Output:
    """``context`` is the topic's. ``positioned``: values do not say where they stand, so a header
    does. ``skipped`` are operations without records, as they stand in events. ``partitions`` is how
    many the topic has, which is known when the first row comes."""

    __slots__ = (
        "_headers",
        "_of_row",
        "encoder",
        "packing",
        "partitions",
        "parts",
        "positioned",
        "skipped",
        "tombstones",
        "topic",
    )

    def __init__(self, relation: Relation, context: SourceContext, place: Place) -> None:
        form = context.form
        self.topic = place.topic
        self.encoder: Encoder = change_encoder(relation, context)
        self.packing = table_packing(relation, context.name, form, context.registry)
        self._headers = content_headers(form)
        rows = self.encoder if isinstance(self.encoder, FlatEncoder) else None
        self._of_row = rows.headers if rows is not None and form.headers else None
        self.parts = bool(place.partition_by)
        self.positioned = not form.has_events
        self.skipped = frozenset(map(quoted, form.left_out))
        self.tombstones = form.has_tombstones
        self.partitions = 0

    def record(
        self,
        key: bytes | None,
        value: bytes | None,
        header: Header | None = None,
        row: Sequence[Value] = (),
    ) -> Record:
        """The record of an event, or of a tombstone, given as JSON; ``row`` has the values that
        the key is of."""
        keyed = key is not None
        if (packing := self.packing) is not None:
            key = None if key is None else packing.key(key)
            value = None if value is None else packing.value(value)
        record = row_record(key, value, header)
        if self.parts and keyed:
            chosen = self.encoder.rows.partition_key(row)
            record["partition"] = partition_for(chosen, self.partitions)
        if self._headers and value is not None:
            record["headers"] = [*self._headers, *record.get("headers", ())]
        return record

    def event(
        self,
        out: Outgoing,
        at: Position,
        key: bytes | None,
        before: bytes,
        after: bytes,
        op: bytes,
        lsn: int,
        new: Values,
        header: Header | None,
        old: Values | None,
        closing: bytes,
        transaction: bytes,
    ) -> None:
        """The records of one event of a row follow each other: ``new`` are the values of ``after``,
        empty without one, ``old`` those of ``before``. See ``ChangeEncoder.value``."""
        encoder = self.encoder
        relaxed = bool(encoder.required) and encoder.is_relaxed(old, new)
        tail = encoder.special_tail(after, new, transaction)
        if value := encoder.value(
            before, after, op, lsn, at.ordinal, closing, tail, relaxed=relaxed
        ):
            record = self.record(key, value, header, new or old or ())
            if self._of_row is not None:
                _add(record, self._of_row(op, lsn, at.ordinal, closing))
            out.put(self.topic, record, len(value), at, self.positioned)
        if op == _DELETE and key is not None and self.tombstones:
            record = self.record(key, None, header, old or ())
            if self._of_row is not None:
                _add(record, self._of_row(op, lsn, at.ordinal, closing, bool(value)))
            out.put(self.topic, record, len(key), at, self.positioned)

    def truncate(
        self, out: Outgoing, at: Position, lsn: int, closing: bytes, transaction: bytes
    ) -> None:
        """The records of a TRUNCATE. See ``ChangeEncoder.value``."""
        tail, null = self.encoder.tail(b"", transaction), b"null"
        value = self.encoder.value(null, null, _TRUNCATE, lsn, at.ordinal, closing, tail)
        size = len(value)
        if self.packing is not None:
            value = self.packing.value(value)
        for record in truncate_records(value, self.partitions):
            if self._headers:
                record["headers"] = [*self._headers]
            out.put(self.topic, record, size, at, self.positioned)


def _add(record: Record, headers: list[Header]) -> None:
    """Behind those that the record has."""
    record["headers"] = [*record.get("headers", ()), *headers]
