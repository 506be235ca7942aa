"""Types of a view's columns in PostgreSQL, and how each is read back. Pure."""

from __future__ import annotations

from typing import Final

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
    TimestampNTZType,
    TimestampType,
)

from jobs.sinks.postgres.copy_lines import is_nested
from jobs.sinks.postgres.quoting import ident
from jobs.sinks.schema_evolution import POSTGRES_TYPE

_TYPES: Final[dict[type[DataType], str]] = {
    ByteType: "smallint",
    ShortType: "smallint",
    IntegerType: "integer",
    LongType: "bigint",
    FloatType: "real",
    DoubleType: "double precision",
    BooleanType: "boolean",
    StringType: "text",
    BinaryType: "bytea",
    DateType: "date",
    TimestampNTZType: "timestamp",
    TimestampType: "timestamptz",
}
_AS_TEXT: Final = (StringType, DateType, TimestampNTZType, TimestampType)
"""What is read as text: Python has not all of their values."""


def sql_type(field: StructField, in_key: bool) -> str:
    """The type of a column. A key of ``json`` is text: that has no equality."""
    kind = field.dataType
    if is_nested(kind):
        return "jsonb"
    several = isinstance(kind, ArrayType)
    element = kind.elementType if isinstance(kind, ArrayType) else kind
    if isinstance(element, DecimalType):
        name = f"numeric({element.precision},{element.scale})"
    else:
        name = _TYPES[type(element)]
        name = field.metadata.get(POSTGRES_TYPE, name) if name == "text" else name
    if in_key and name == "json":
        name = "text"
    return f"{name}[]" if several else name


def read_column(field: StructField) -> str:
    kind, name = field.dataType, ident(field.name)
    if is_nested(kind):
        return f"{name}::text"
    several = "[]" if isinstance(kind, ArrayType) else ""
    element = kind.elementType if isinstance(kind, ArrayType) else kind
    if isinstance(element, _AS_TEXT):
        return f"{name}::text{several}"
    return f"{name}::float8{several}" if isinstance(element, FloatType) else name
