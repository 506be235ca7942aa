"""Snapshot rows as CloudEvents: see ``cdc.columnar.snapshot``. Pure but for a token."""

from __future__ import annotations

from secrets import token_hex

from cdc.columnar.copy_text import copied_rows
from cdc.events.cloud.cloud_encoder import CloudEncoder
from cdc.events.codes import SNAPSHOT, quoted
from cdc.events.envelope import SourceContext, Transaction
from cdc.protocol.relation import Relation

_READ = quoted(SNAPSHOT)
_MARK = b'"iodebeziumsnapshot":"%b"'
"""It stands before all that a row or a name of the source could hold."""


class CloudSnapshotEncoder:
    """Rows are written one by one: each has an ``id`` of its own, with a token, as several workers
    may read one table."""

    __slots__ = ("_events", "_lsn", "_width")

    def __init__(self, relation: Relation, context: SourceContext, lsn: int, read_us: int) -> None:
        self._lsn, self._width = lsn, len(relation.columns)
        self._events = CloudEncoder(relation, context, token_hex(6))
        self._events.begin(Transaction(lsn, read_us, None, None), "true")

    def encode(self, copied: bytes, rows: int) -> tuple[list[bytes] | list[None], list[bytes]]:
        """See ``SnapshotEncoder``."""
        keys, values, events = list[bytes](), list[bytes](), self._events
        for row in copied_rows(copied, self._width):
            key, relaxed = events.rows.key(row), events.is_relaxed(None, row)
            image = events.rows.row(row)
            values.append(events.value(b"null", image, _READ, self._lsn, 0, b"", relaxed=relaxed))
            if key is not None:
                keys.append(key)
        return keys or [None] * rows, values

    def marked(self, value: bytes, marker: str) -> bytes:
        """See ``SnapshotEncoder``."""
        return value.replace(_MARK % b"true", _MARK % marker.encode(), 1)
