"""Values of a view's rows as Arrow has them: SQL that writes them as text, and columns of texts
read as their types, a column at a time. Pure.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import orjson
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, ORDINAL, UNCHANGED
from jobs.sinks.postgres.quoting import ident
from jobs.state.values.event_texts import event_text
from jobs.state.values.json_forms import form_of, json_form
from jobs.state.values.line_sql import line_value
from jobs.state.views.view_columns import ViewColumn, spark_columns

_MICROSECONDS: Final = 1_000_000
_DAY_US: Final = 86_400 * _MICROSECONDS
_MOMENT = re.compile(r"([-+]?\d+)-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d)\.(\d{6})Z?)?").fullmatch


def arrow_text(column: ViewColumn, relation: str) -> str:
    """SQL of the text that ``arrow_column`` reads of a value: dates as days and times as
    microseconds since 1970, binary in hexadecimal digits, arrays and objects as documents."""
    kind, value = column.kind, f"{relation}.{ident(column.name)}"
    if kind.name in ("array", "struct"):
        return json_form(form_of(kind, column.type, column.typmod), value)
    if kind.spark == "string":
        return event_text(column.type.base, column.typmod, value)
    if kind.name == "date":
        return f"case when isfinite({value}) then ({value} - date '1970-01-01')::text end"
    if kind.name in ("timestamp", "timestamptz"):
        us = f"(extract(epoch from {value}) * {_MICROSECONDS})::bigint::text"
        return f"case when isfinite({value}) then {us} end"
    if kind.name == "bytea":
        return f"encode({value}, 'hex')"
    return line_value(column, relation)


def arrow_table(
    columns: Sequence[ViewColumn], texts: Sequence[Any], deleted: Any, position: Position
) -> pa.Table:
    """Rows as ``Sink.apply`` has them, of columns of texts, at one position."""
    schema = to_arrow_schema(spark_columns(columns), timezone="UTC")
    arrays = [arrow_column(one, field.type) for one, field in zip(texts, schema, strict=True)]
    count = len(deleted)
    control = {
        DELETED: deleted,
        COMMIT_LSN: pa.repeat(pa.scalar(position.commit_lsn, pa.int64()), count),
        ORDINAL: pa.repeat(pa.scalar(position.ordinal, pa.int64()), count),
        UNCHANGED: pa.nulls(count, pa.list_(pa.string())),
        COMMITTED_AT: pa.nulls(count, pa.timestamp("us", "UTC")),
    }
    return pa.table([*arrays, *control.values()], names=[*schema.names, *control])


def arrow_column(texts: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> Any:
    """A column of its type."""
    if pa.types.is_string(kind):
        return texts.cast(kind)
    if pa.types.is_date32(kind):
        return texts.cast(pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return texts.cast(pa.int64()).cast(kind)
    if pa.types.is_binary(kind):
        return _each(texts, bytes.fromhex, kind)
    if pa.types.is_list(kind) or pa.types.is_struct(kind):
        read = _value_of(kind)
        return _each(texts, lambda text: read(orjson.loads(text)), kind)
    return texts.cast(kind)


def _each(texts: Any, read: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if t is None else read(t) for t in texts.to_pylist()], kind)


def _value_of(kind: pa.DataType) -> Callable[[Any], Any]:
    """From a value of a document, which is not null, to what Arrow makes one of the type of."""
    if pa.types.is_list(kind):
        of_item = _value_of(kind.value_type)
        return lambda items: [None if item is None else of_item(item) for item in items]
    if pa.types.is_struct(kind):
        return _object_of([(field.name, _value_of(field.type)) for field in kind])
    if pa.types.is_date32(kind):
        return lambda text: _microseconds(text) // _DAY_US
    if pa.types.is_timestamp(kind):
        return _microseconds
    if pa.types.is_binary(kind):
        return b64decode
    if pa.types.is_decimal(kind):
        return Decimal
    return float if pa.types.is_floating(kind) else lambda value: value


def _object_of(fields: Sequence[tuple[str, Callable[[Any], Any]]]) -> Callable[[Any], Any]:
    def read(held: dict[str, Any]) -> dict[str, Any]:
        return {
            name: None if (value := held.get(name)) is None else of(value) for name, of in fields
        }

    return read


def _microseconds(text: str) -> int:
    """Since 1970, of any year: Python's own dates end at 9999."""
    match = _MOMENT(text)
    if match is None:
        raise ValueError(text)
    year, month, day, *clock = (int(part or 0) for part in match.groups())
    hours, minutes, seconds, us = clock
    of_day = ((hours * 60 + minutes) * 60 + seconds) * _MICROSECONDS + us
    return _days(year, month, day) * _DAY_US + of_day


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970, of the proleptic Gregorian calendar: years begin in March here, so that a
    leap day is the last one."""
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
