"""Events of snapshot rows, whole blocks of columns at a time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from cdc.events.envelope import SourceContext, Transaction, clock, json_object, source_parts, text
from cdc.events.values import ColumnEncoder, column_encoder
from cdc.protocol.relation import Relation

SNAPSHOT_MARKERS: Final = (
    "true",
    "first",
    "first_in_data_collection",
    "last_in_data_collection",
    "last",
)


class SnapshotEncoder:
    """Rows read in a snapshot at one LSN: ``op: r``, position ``(lsn, 0)``.

    Works on whole blocks, column by column, and forms a row in one step.
    """

    __slots__ = ("_encoders", "_key", "_key_template", "_templates")

    def __init__(self, relation: Relation, context: SourceContext, lsn: int, read_us: int) -> None:
        self._encoders = [column_encoder(c.type, c.typmod) for c in relation.columns]
        names = [column.name for column in relation.columns]
        self._key = [names.index(name) for name in relation.key]
        self._key_template = json_object(list(relation.key))
        at = Transaction(lsn, read_us, None, None)
        self._templates: dict[str, bytes] = {}
        for marker in SNAPSHOT_MARKERS:
            parts = source_parts(context, at, relation.schema, relation.table, marker)
            tail = b'%b%d%b%d%b0,"schema_id":%b},"transaction":null,"op":"r",%b' % (
                parts[0],
                lsn,
                parts[1],
                lsn,
                parts[2],
                text(relation.schema_id()),
                clock(read_us),
            )
            self._templates[marker] = b'{"before":null,"after":%b,"source":%b' % (
                json_object(names),
                tail.replace(b"%", b"%%"),
            )

    def encode(
        self, columns: Sequence[Sequence[bytes | None]], rows: int, marker: str = "true"
    ) -> tuple[list[bytes] | list[None], list[bytes]]:
        """Keys and values of the events of ``rows`` rows, given as their columns."""
        cells = [
            _cells(column, encode) for column, encode in zip(columns, self._encoders, strict=True)
        ]
        template = self._templates[marker]
        if not cells:
            return [None] * rows, [template % ()] * rows
        values = list(map(template.__mod__, zip(*cells, strict=True)))
        if not self._key:
            return [None] * rows, values
        keys = zip(*[cells[i] for i in self._key], strict=True)
        return list(map(self._key_template.__mod__, keys)), values


def _cells(column: Sequence[bytes | None], encode: ColumnEncoder | None) -> Sequence[bytes]:
    if None not in column:
        whole = cast("Sequence[bytes]", column)
        return whole if encode is None else encode(whole)
    present = [value for value in column if value is not None]
    encoded = iter(present if encode is None else encode(present))
    return [b"null" if value is None else next(encoded) for value in column]
