"""Values of PostgreSQL as ``ViewTable.scan`` reads them, to those that every store gives. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import orjson
from pyspark.sql.types import ArrayType, DataType, DateType, TimestampNTZType, TimestampType

from jobs.sinks.documents import value_decoder
from jobs.sinks.postgres.copy_lines import is_nested


def decoder(kind: DataType) -> Callable[[Any], Any] | None:
    """From what ``ViewTable.scan`` gives to Python's values; None when they are that already."""
    if is_nested(kind):
        nested = value_decoder(kind)
        return orjson.loads if nested is None else lambda text: nested(orjson.loads(text))
    if isinstance(kind, ArrayType):
        element = decoder(kind.elementType)
        if element is None:
            return None
        return lambda values: [None if value is None else element(value) for value in values]
    if isinstance(kind, DateType):
        return _date
    return _moment if isinstance(kind, TimestampNTZType | TimestampType) else None


def _date(text: str) -> date | str:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return _outside(text)[0]


def _moment(text: str) -> datetime | str:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        day, time = _outside(text)
        zone = "Z" if time.endswith("+00") else ""
        clock, _, fraction = time.removesuffix("+00").partition(".")
        return f"{day}T{clock}.{fraction:0<6}{zone}"


def _outside(text: str) -> tuple[str, str]:
    """The day, as ISO has it, and the time of something outside of Python's years."""
    day, _, time = text.removesuffix(" BC").partition(" ")
    year, _, rest = day.partition("-")
    number = 1 - int(year) if text.endswith(" BC") else int(year)
    sign = "-" if number < 0 else "+" if number > 9999 else ""
    return f"{sign}{abs(number):04d}-{rest}", time
