"""Rows as JSON documents, for the stores that keep documents, and back again.

A document is what Spark's own ``to_json`` makes of a row, with two choices so that nothing is lost:

* decimals are JSON strings: a JSON number is a double to most readers;
* times have six digits of a second: ``2024-02-29T12:00:00.123456Z``, and no ``Z`` without a zone.

The rest is JSON's usual form: integers as numbers (all 64 bits), ``"NaN"``, ``"Infinity"`` and
``"-Infinity"`` as strings, binary in base64, nulls written out.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import orjson
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cdc import lsn
from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED, ViewRow
from jobs.sinks.row_errors import RowsError, unknown_values
from jobs.sinks.schema_evolution import quoted

_JSON_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}


class Documents:
    """Makes documents of a batch's rows: ``id``, ``body``, ``commit_lsn``, ``ordinal``,
    ``unchanged`` of each, and its ``name``, if the store has names.

    All in the JVM: Python sees finished text. The expressions are built once.
    """

    def __init__(
        self, columns: StructType, key: tuple[str, ...], name: Column | None = None
    ) -> None:
        fields = [_as_json(field).alias(field.name) for field in columns]
        body = F.to_json(F.struct(*fields), _JSON_OPTIONS)
        self._parts = [
            key_text(columns, key).alias("id"),
            F.when(~F.col(DELETED), body).alias("body"),
            F.col(COMMIT_LSN).alias("commit_lsn"),
            F.col(ORDINAL).alias("ordinal"),
            # Never null: before each row that goes to Python Spark sizes the batch so far, and then
            # walks over all the lists that are.
            F.col(UNCHANGED).alias("unchanged"),
        ]
        if name is not None:
            self._parts.append(name.alias("name"))

    def __call__(self, rows: DataFrame, *beside: str) -> DataFrame:
        """The documents of rows, behind so many columns of the rows themselves."""
        return rows.select(*beside, *self._parts)


class Document(NamedTuple):
    """One touched key, ready for a document store."""

    id: str
    """The key as text: a single column's value, or a JSON array of several."""
    body: str | None
    """The row as a JSON object; ``None`` when the row is deleted."""
    position: Position
    unchanged: tuple[str, ...]
    """Fields of ``body`` that must be taken from the stored document."""
    name: str = ""
    """What the store calls the row, where that is not ``id``."""


def parse_position(text: str) -> Position:
    """The inverse of ``Position.hex``."""
    return lsn.parse_position(text.encode())


class Stored(NamedTuple):
    """What a store holds under one id; ``body`` is ``None`` for a tombstone."""

    position: Position
    body: dict[str, Any] | None


def json_text(field: StructField) -> Column:
    """The JSON of a column of arrays, maps or structs, as it is in a document."""
    return F.to_json(_as_json(field), _JSON_OPTIONS)


def _as_json(field: StructField) -> Column:
    return F.col(quoted(field.name)).cast(_json_type(field.dataType))


def _json_type(kind: DataType) -> DataType:
    """The same type with every decimal in it a string."""
    if isinstance(kind, DecimalType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_json_type(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_json_type(kind.keyType), _json_type(kind.valueType))
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _json_type(f.dataType)) for f in kind])
    return kind


def key_text(columns: StructType, key: tuple[str, ...]) -> Column:
    """A row's key as text: what stores call it, and ``Refused`` names it by. A single column's
    value, or a JSON array of several; null if a column of the key is."""
    if len(key) == 1 and isinstance(columns[key[0]].dataType, StringType | IntegralType):
        return F.col(quoted(key[0])).cast("string")
    elements = [_element(columns[name]) for name in key]
    if len(key) == 1:
        return F.btrim(elements[0], F.lit('"'))
    return F.concat(F.lit("["), *_separated(elements), F.lit("]"))


def _separated(elements: list[Column]) -> list[Column]:
    return [part for element in elements for part in (F.lit(","), element)][1:]


def _element(field: StructField) -> Column:
    """The JSON of one value, that of an array of it without the brackets; null if it is null."""
    text = F.to_json(F.array(_as_json(field)), _JSON_OPTIONS)
    return F.when(F.col(quoted(field.name)).isNotNull(), text.substr(F.lit(2), F.length(text) - 2))


def filled(
    view: str,
    documents: Sequence[Document],
    stored: Sequence[Stored | None],
    errors: list[RowsError],
) -> list[Document]:
    """``documents`` with their unchanged fields taken from what the store holds of each.

    One that is not newer than the store is left out: the store would refuse it. So are those for
    which the store has no row to take a value from: ``errors`` tells of them. Loading and dumping
    keeps every value: the numbers in a document are integers or doubles.
    """
    whole, missing = [], []
    for document, held in zip(documents, stored, strict=True):
        if held is not None and held.position >= document.position:
            continue
        if held is None or held.body is None or document.body is None:
            missing.append((document.id, document.position))
            continue
        body = orjson.loads(document.body)
        body |= {name: held.body.get(name) for name in document.unchanged}
        whole.append(document._replace(body=orjson.dumps(body).decode(), unchanged=()))
    if missing:
        errors.append(unknown_values(view, missing, len(missing)))
    return whole


def row_decoder(
    columns: StructType, key: tuple[str, ...]
) -> Callable[[dict[str, Any], Position], ViewRow]:
    """A function from a parsed document to the row it was made of.

    Values become int, float, ``Decimal``, bool, str, bytes, date, datetime (aware, UTC, unless
    ``timestamp_ntz``) and list. Times outside Python's years 1 to 9999 stay text.
    """
    names = columns.names
    decoders = [(f.name, d) for f in columns if (d := value_decoder(f.dataType)) is not None]

    def decode(body: dict[str, Any], position: Position) -> ViewRow:
        values = {name: body.get(name) for name in names}
        for name, decoder in decoders:
            if (value := values[name]) is not None:
                values[name] = decoder(value)
        return ViewRow(tuple(values[name] for name in key), position, values)

    return decode


def value_decoder(kind: DataType) -> Callable[[Any], Any] | None:
    """From a JSON value that is not null to Python's; ``None`` when it is that already."""
    if isinstance(kind, ArrayType):
        return _sequence_decoder(kind)
    if isinstance(kind, StructType):
        return _struct_decoder(kind)
    return _SCALARS.get(type(kind))


def _sequence_decoder(kind: ArrayType) -> Callable[[Any], Any] | None:
    element = value_decoder(kind.elementType)
    if element is None:
        return None
    return lambda values: [None if value is None else element(value) for value in values]


def _struct_decoder(kind: StructType) -> Callable[[Any], Any]:
    decoders = {field.name: value_decoder(field.dataType) for field in kind}

    def decode(values: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value if value is None or not (decoder := decoders.get(name)) else decoder(value)
            for name, value in values.items()
        }

    return decode


def _single(value: Any) -> float:
    """The exact value of a four-byte float, as the other stores give it."""
    (widened,) = struct.unpack("f", struct.pack("f", float(value)))
    return float(widened)


def _date(text: str) -> date | str:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


def _datetime(text: str) -> datetime | str:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


_SCALARS: dict[type[DataType], Callable[[Any], Any]] = {
    BinaryType: b64decode,
    DateType: _date,
    DecimalType: Decimal,
    DoubleType: float,
    FloatType: _single,
    TimestampNTZType: _datetime,
    TimestampType: _datetime,
}


def document_list(table: Any) -> list[Document]:
    """Documents of an Arrow table or record batch made by ``Documents``."""
    columns: Sequence[list[Any]] = [table.column(i).to_pylist() for i in range(table.num_columns)]
    return [
        Document(key, body, Position(lsn, ordinal), tuple(unchanged or ()), *name)
        for key, body, lsn, ordinal, unchanged, *name in zip(*columns, strict=True)
    ]
