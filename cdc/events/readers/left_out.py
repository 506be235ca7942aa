"""What a Debezium connector writes for a large value (TOAST) that an update left alone. Pure.

A constant stands for the value, by the name of the column's type, and is converted as a value of it
would be. Where that fails, the connector writes null. Which does was recorded for each kind of type
in each mode (``tests/oracle/debezium_forms.json``, table ``toast``), and is in Debezium's
``UnchangedToastedReplicationMessageColumn`` and ``PostgresValueConverter``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from cdc.events.form import Form
from cdc.events.readers.columns import ColumnKind, precision_of
from cdc.events.schemas.placeholders import placeholder
from cdc.protocol.relation import Column, TypeInfo

_INLINE: Final = frozenset(
    ("int2", "int4", "int8", "oid", "float4", "float8", "bool", "date", "time", "timetz", "uuid")
) | {"timestamp", "timestamptz", "interval", "money", "point", "line", "lseg", "box", "circle"}
_SHORT_DIGITS: Final = 38
_SHORT_BITS: Final = 128
"""Values of so many stay in their row: a pointer to them is hardly shorter."""
_TOLD_IN_ARRAYS: Final = frozenset(
    ("text", "varchar", "bpchar", "json", "jsonb", "int4", "int8", "uuid", "date", "bytea")
)
"""Elements of arrays that have a constant of their own."""
_AS_NUMBERS: Final = ("adaptive", "adaptive_time_microseconds", "microseconds", "nanoseconds")
"""Modes in which a date is a number, as those are that stand for an array of dates."""


def may_be_left_out(kind: ColumnKind) -> bool:
    """Whether values may be large, so that an update leaves them out."""
    if kind.element is not None or kind.kind in ("composite", "range", "multirange"):
        return True
    if kind.kind == "enum" or kind.base in _INLINE:
        return False
    if kind.base == "numeric" and kind.typmod >= 0:
        return precision_of(kind.typmod) > _SHORT_DIGITS
    return kind.base != "bit" or not 0 <= kind.typmod <= _SHORT_BITS


def left_out_sign(form: Form, kind: ColumnKind) -> Any:
    """What stands for such a value, as JSON has it; None for null."""
    if not _is_told(form, kind):
        return None
    if kind.base == "hstore" and kind.kind != "domain" and form.hstores == "json":
        return json.dumps({form.placeholder: form.placeholder}, separators=(",", ":"))
    element = kind.element and TypeInfo(0, "", kind.element, "base", kind.element)
    type_ = TypeInfo(0, "", kind.base, kind.kind, kind.base, -1, element or None)
    column = Column("", type_, kind.typmod, key=False)
    return json.loads(placeholder(column, replace(form, schemas=True)))


def _is_told(form: Form, kind: ColumnKind) -> bool:
    """Whether it is not null."""
    is_domain = kind.kind == "domain"  # whose name has no constant
    if kind.element is None:
        if kind.base == "bytea":
            return form.binaries in ("bytes", "hex")
        return kind.base not in ("bit", "varbit") and not (
            is_domain and kind.base == "hstore" and form.hstores == "map"
        )
    if is_domain or kind.element not in _TOLD_IN_ARRAYS:
        return False
    if kind.element == "bytea":
        return form.binaries == "bytes"
    return kind.element != "date" or form.times in _AS_NUMBERS
