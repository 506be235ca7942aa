"""Events of one table version in a format that is packed row by row, formed as JSON by column."""

from __future__ import annotations

from typing import Any

from cdc.columnar.arrays import binary, texts_of
from cdc.columnar.events import Rows, Stamps, TableEncoder
from cdc.events.envelope import SourceContext
from cdc.events.formats.packing import Packing
from cdc.protocol.relation import Relation


class PackedTableEncoder:
    """See ``cdc.columnar.events.TableEncoder``."""

    __slots__ = ("_json", "_packing")

    def __init__(self, relation: Relation, context: SourceContext, packing: Packing) -> None:
        self._json, self._packing = TableEncoder(relation, context), packing

    def encode(self, rows: Rows, stamps: Stamps, closing: bytes) -> tuple[Any, Any] | None:
        """See ``TableEncoder``."""
        if (made := self._json.encode(rows, stamps, closing)) is None:
            return None
        keys, values = made
        packed = binary(list(map(self._packing.value, texts_of(values))))
        if keys is None:
            return None, packed
        return binary(list(map(self._packing.key, texts_of(keys)))), packed

    def refuses(self, rows: Rows) -> bool:
        """See ``TableEncoder``."""
        return self._json.refuses(rows)
