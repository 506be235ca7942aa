"""A batch's rows as lines of COPY's text format, made in the JVM: Python sees finished text.

https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-TEXT-FORMAT
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED
from jobs.sinks.documents import json_text, key_text
from jobs.sinks.schema_evolution import POSTGRES_TYPE, quoted

# With the era, "y" is the year of it: what PostgreSQL reads for any year that Spark has.
_TIMES: Final[dict[type[DataType], str]] = {
    DateType: "yyyy-MM-dd G",
    TimestampNTZType: "yyyy-MM-dd HH:mm:ss.SSSSSS G",
    TimestampType: "yyyy-MM-dd HH:mm:ss.SSSSSSXXX G",
}
_PLAIN: Final = (NumericType, BooleanType, DateType, TimestampNTZType, TimestampType)
"""Types whose text has nothing that COPY or an array would take for its own."""
_ESCAPED: Final = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_NULL: Final = "\\N"
LIVE: Final = "\tfalse\t\\N"
"""The end of a line for a batch: the row is not deleted, and nothing of it unchanged."""
GONE: Final = "\ttrue\t\\N"
_INFINITIES: Final = {"POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
"""Of a numeric, as events have them."""


class CopyRow(NamedTuple):
    """One touched key, ready for COPY."""

    id: str
    """The key as ``documents.key_text`` has it."""
    line: str
    """Without its newline."""
    position: Position


CopyRows = Callable[[DataFrame], DataFrame]
"""Makes lines of a batch's rows."""


def copy_rows(columns: StructType, key: tuple[str, ...], loading: bool = False) -> CopyRows:
    """From a batch's rows to ``id``, ``line``, ``commit_lsn``, ``ordinal`` of each.

    A line has the columns and the position; unless ``loading`` also whether the row is deleted,
    and which columns are unchanged.
    """
    fields = [_field(field) for field in columns]
    fields += [F.col(COMMIT_LSN).cast("string"), F.col(ORDINAL).cast("string")]
    if not loading:
        fields += [F.col(DELETED).cast("string"), _unchanged()]
    parts = [
        key_text(columns, key).alias("id"),
        F.concat_ws("\t", *fields).alias("line"),
        F.col(COMMIT_LSN).alias("commit_lsn"),
        F.col(ORDINAL).alias("ordinal"),
    ]
    return lambda rows: rows.select(*parts)


def copy_list(table: Any) -> list[CopyRow]:
    """Rows of an Arrow table or record batch made from ``copy_rows``."""
    columns: Sequence[list[Any]] = [table.column(i).to_pylist() for i in range(4)]
    return [
        CopyRow(key, line, Position(lsn, ordinal))
        for key, line, lsn, ordinal in zip(*columns, strict=True)
    ]


def is_nested(kind: DataType) -> bool:
    """Whether values are kept as JSON: PostgreSQL's arrays of arrays have to be rectangular."""
    if isinstance(kind, ArrayType):
        return isinstance(kind.elementType, ArrayType | MapType | StructType)
    return isinstance(kind, MapType | StructType)


def _field(field: StructField) -> Column:
    kind = field.dataType
    if is_nested(kind):
        text = _replaced(json_text(field), _ESCAPED)
    elif isinstance(kind, ArrayType):
        told = field.metadata.get(POSTGRES_TYPE, "")
        text = _replaced(_array(F.col(quoted(field.name)), kind.elementType, told), _ESCAPED)
    else:
        text = _text(F.col(quoted(field.name)), kind, field.metadata.get(POSTGRES_TYPE, ""))
        if not isinstance(kind, _PLAIN):
            text = _replaced(text, _ESCAPED)
    return F.coalesce(text, F.lit(_NULL))


def _text(value: Column, kind: DataType, told: str) -> Column:
    """A value as PostgreSQL reads it, null for null."""
    if pattern := _TIMES.get(type(kind)):
        # A year of five digits gets a sign, which PostgreSQL takes for a zone's.
        return F.ltrim(F.date_format(value, pattern), F.lit("+"))
    if isinstance(kind, BinaryType):
        return F.concat(F.lit("\\x"), F.hex(value))
    if told == "numeric":
        text = value
        for name, infinity in _INFINITIES.items():
            text = F.when(value == name, infinity).otherwise(text)
        return text
    return value if isinstance(kind, StringType) else value.cast("string")


def _array(values: Column, kind: DataType, told: str) -> Column:
    """An array's literal, with quotes around whatever may need them."""

    def element(value: Column) -> Column:
        text = _text(value, kind, told)
        if not isinstance(kind, _PLAIN):
            text = _replaced(text, (("\\", "\\\\"), ('"', '\\"')))
        return F.coalesce(F.concat(F.lit('"'), text, F.lit('"')), F.lit("NULL"))

    literal = F.concat(F.lit("{"), F.array_join(F.transform(values, element), ","), F.lit("}"))
    return F.when(values.isNotNull(), literal)


def _unchanged() -> Column:
    """Null where nothing is: most rows, and the least to send."""
    names = _replaced(_array(F.col(UNCHANGED), StringType(), ""), _ESCAPED)
    return F.coalesce(F.when((F.size(UNCHANGED) > 0) & ~F.col(DELETED), names), F.lit(_NULL))


def _replaced(text: Column, pairs: Sequence[tuple[str, str]]) -> Column:
    for old, new in pairs:
        text = F.replace(text, F.lit(old), F.lit(new))
    return text
