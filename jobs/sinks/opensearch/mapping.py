"""The OpenSearch index of a view: fields from Spark's types, settings, and its alias. Pure.

``_source`` keeps every value exactly as it was sent; a field only says how it is searched. So
decimals are indexed as doubles, and what a field cannot hold (NaN, the year 12000) is left out of
the index by ``ignore_malformed``, not refused. Integers of every size are indexed as ``long``, and
floats as ``double``: a field keeps its type for good, and a column may become wider.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cdc.config import View
from cdc.errors import ViewError
from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, ORDINAL
from jobs.sinks.opensearch.json_fields import derived, json_fields
from jobs.sinks.opensearch.overrides import check, merged, serving
from jobs.sinks.schema_evolution import check_names, columns_json

DELETED_AT = "__deleted_at"
"""When a tombstone was written, in milliseconds since 1970; no live document has it."""
LIVE = {"bool": {"must_not": {"exists": {"field": DELETED_AT}}}}
VIEW = "headwater_view"
"""What an index remembers its view by."""
_KEYWORD_CHARACTERS = 8191
"""Lucene holds terms of 32,766 bytes, and a character takes up to four."""

_LONG = {"type": "long"}
_TIME = {"type": "date", "format": "strict_date_optional_time", "ignore_malformed": True}
_FIELDS: dict[type[DataType], dict[str, Any]] = {
    StringType: {
        "type": "keyword",
        "ignore_above": _KEYWORD_CHARACTERS,
        "fields": {"text": {"type": "text"}},
    },
    ByteType: _LONG,
    ShortType: _LONG,
    IntegerType: _LONG,
    LongType: _LONG,
    FloatType: {"type": "double", "ignore_malformed": True},
    DoubleType: {"type": "double", "ignore_malformed": True},
    DecimalType: {"type": "double", "ignore_malformed": True},
    BooleanType: {"type": "boolean"},
    BinaryType: {"type": "binary"},
    DateType: _TIME,
    TimestampType: _TIME,
    TimestampNTZType: _TIME,
}


def index_body(
    view: str,
    columns: StructType,
    key: tuple[str, ...],
    aliases: Sequence[str],
    declared: View | None = None,
) -> dict[str, Any]:
    """What creates a view's index.

    Raises ``ViewError`` for a column that OpenSearch cannot index, and for a declaration that does
    not fit the view.
    """
    if declared is not None:
        check(view, declared.mapping, columns.names)
    return {
        "settings": serving(view, declared.settings if declared else {}),
        "mappings": {
            "dynamic": "strict",
            "_meta": metadata(view, columns, key, declared),
            "properties": properties(view, columns, declared)
            | {COMMIT_LSN: _LONG, ORDINAL: _LONG, DELETED_AT: _LONG},
        },
        "aliases": {alias: {"filter": LIVE} for alias in aliases},
    }


def metadata(
    view: str, columns: StructType, key: tuple[str, ...], declared: View | None = None
) -> dict[str, Any]:
    """What the index remembers of its view; it marks the index as ours."""
    return {
        VIEW: view,
        "key": list(key),
        "columns": columns_json(columns),
        "declared": declaration(declared),
    }


def declaration(declared: View | None) -> str:
    """What was declared of the index, as it is remembered."""
    mapping, settings = (declared.mapping, declared.settings) if declared else ({}, {})
    return json.dumps({"mapping": mapping, "settings": settings}, sort_keys=True)


def properties(view: str, columns: StructType, declared: View | None = None) -> dict[str, Any]:
    """One field a column; an array is a field of its elements, as OpenSearch has it, and a struct
    an ``object``, whose fields are searched as if each were an array of the column's own.

    Raises ``ViewError`` for a column whose name or type OpenSearch cannot index.
    """
    check_names(view, "opensearch", columns)
    fields = {field.name: _field(view, field) for field in columns}
    if declared is None:
        return fields
    for name in json_fields(view, columns, declared.mapping):
        fields[name] = derived(declared.mapping[name]["type"])
    return merged(view, fields, declared.mapping)


def below(position: Position) -> dict[str, Any]:
    """The query for live documents below a position."""
    lsn, ordinal = position
    same = [{"term": {COMMIT_LSN: lsn}}, {"range": {ORDINAL: {"lt": ordinal}}}]
    older = [{"range": {COMMIT_LSN: {"lt": lsn}}}, {"bool": {"filter": same}}]
    return {"bool": {"filter": LIVE, "should": older, "minimum_should_match": 1}}


def _field(view: str, column: StructField, within: str = "") -> dict[str, Any]:
    name, kind = f"{within}{column.name}", column.dataType
    while isinstance(kind, ArrayType):
        kind = kind.elementType
    if isinstance(kind, StructType):
        inner = {field.name: _field(view, field, f"{name}.") for field in kind}
        return {"type": "object", "properties": inner}
    if type(kind) not in _FIELDS:
        raise ViewError(
            f"view {view}: OpenSearch cannot index {name}, a {kind.simpleString()}",
            "cast the column to another type",
        )
    return _FIELDS[type(kind)]
