"""Columns whose values a connector's events do not have exactly: no view may read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cdc.config import Config
from cdc.events.form import Form
from cdc.events.readers.columns import (
    EXACT_DIGITS,
    ColumnKind,
    exceeds_double,
    loss,
    may_be_null,
    scale_of,
)
from cdc.events.readers.left_out import left_out_sign, may_be_left_out
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_DEFAULTS: Final = """
select a.attname::text, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
from pg_catalog.pg_attribute a
join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %s::oid and not a.attisdropped and not a.attnotnull
  and a.attgenerated = '' and a.attidentity = ''
"""
_is_computed = re.compile(r"\w\(|^\s*(current_|localtime|session_user|user\b)", re.I).search
_FULL: Final = "f"
_MS_DIGITS: Final = 3
_WITHOUT_FORM: Final = ("varbit", "name", "oidvector", "int2vector")
_NO_ELEMENTS: Final = ("bit", "point", "line", "lseg", "box", "path", "polygon", "circle")
"""Arrays of these are null, or no column at all."""
_NULL_IS_NOT_TOLD: Final = (
    "Debezium writes null for a large value that an update leaves alone: set REPLICA IDENTITY "
    "FULL, or NOT NULL"
)


def lost_columns(
    config: Config, conn: Connection, record: Mapping[str, Any], kinds: Mapping[str, ColumnKind]
) -> dict[str, str]:
    """Of a table that ``record`` describes, as ``<source>.__schemas`` does; each with the reason,
    and what to do."""
    form, is_full = config.form, record["replica_identity"] == _FULL
    found = {name: why for name, kind in kinds.items() if (why := _loss(form, kind, is_full))}
    if config.source.defaults_for_null:
        with translated(f"reading the defaults of {record['schema']}.{record['table']}"):
            defaults = conn.execute(_DEFAULTS, (record["table_oid"],)).fetchall()
        for name, expression in defaults:
            if name in kinds and not _is_computed(expression):
                found.setdefault(
                    name,
                    "Kafka Connect's converter writes its default in place of NULL, unless "
                    "replace.null.with.default is false there and source.defaults_for_null here",
                )
    return found


def _loss(form: Form, kind: ColumnKind, is_full: bool) -> str:
    base = kind.element or kind.base
    if reason := loss(form, kind):
        return reason
    if base in _WITHOUT_FORM and kind.kind != "enum":
        return f"Debezium has no exact form of {base}"
    if kind.element in _NO_ELEMENTS:
        return f"Debezium has no values of arrays of {kind.element}"
    if kind.element == "time" and not 0 <= kind.item_typmod <= _MS_DIGITS:
        return "Debezium leaves no more than milliseconds in arrays of time"
    if base == "numeric" and form.decimals == "precise" and scale_of(base, kind.item_typmod) < 0:
        return "decimal.handling.mode = precise has no negative scale in Debezium"
    if form.decimals == "double" and exceeds_double(base, kind.item_typmod):
        return f"decimal.handling.mode = double keeps {EXACT_DIGITS} digits"
    if is_full or not may_be_left_out(kind) or left_out_sign(form, kind) is not None:
        return ""
    means_nothing_else = not kind.nullable and not may_be_null(form, kind)
    return "" if means_nothing_else else _NULL_IS_NOT_TOLD
