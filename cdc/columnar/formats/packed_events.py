"""Events of one table version in a format that is packed row by row, formed as JSON by column."""

from __future__ import annotations

import json
from typing import Any

import orjson

from cdc.columnar.arrays import binary, texts_of
from cdc.columnar.events import Rows, Stamps, TableEncoder
from cdc.events.envelope import SourceContext
from cdc.events.formats.packing import Pack, Packing, packed_schema
from cdc.events.formats.protobuf_messages import protobuf_file
from cdc.events.formats.protobuf_writer import protobuf_writer
from cdc.events.schemas.event_schemas import key_schema
from cdc.events.schemas.schema import Schema
from cdc.protocol.relation import Relation


class PackedTableEncoder:
    """See ``cdc.columnar.events.TableEncoder``."""

    __slots__ = ("_json", "_key", "_packing", "_value")

    def __init__(self, relation: Relation, context: SourceContext, packing: Packing) -> None:
        self._json, self._packing = TableEncoder(relation, context), packing
        form = context.form
        self._value = _writer(packed_schema(relation, context.name, form))
        self._key = _writer(key_schema(relation, context.name, form))

    def encode(self, rows: Rows, stamps: Stamps, closing: bytes) -> tuple[Any, Any] | None:
        """See ``TableEncoder``."""
        if (made := self._json.encode(rows, stamps, closing)) is None:
            return None
        keys, values = made
        packed = _packed(self._packing.value_head, self._value, values)
        if keys is None:
            return None, packed
        return _packed(self._packing.key_head, self._key, keys), packed

    def refuses(self, rows: Rows) -> bool:
        """See ``TableEncoder``."""
        return self._json.refuses(rows)


def _writer(schema: Schema) -> Pack:
    return protobuf_writer(protobuf_file(schema).message, _loads)


def _loads(text: bytes) -> Any:
    """Numbers that no double can have are for Python's own parser."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def _packed(head: bytes, write: Pack, texts: Any) -> Any:
    return binary([head + write(text) for text in texts_of(texts)])
