"""Columns whose values a connector's events do not have exactly: no view may read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cdc.config import Config
from cdc.events.form import Form
from cdc.events.readers.columns import EXACT_DIGITS, ColumnKind, exceeds_double, loss
from cdc.events.readers.debezium import left_out_sign, may_be_left_out
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


def lost_columns(
    config: Config, conn: Connection, record: Mapping[str, Any], kinds: Mapping[str, ColumnKind]
) -> dict[str, str]:
    """Of a table that ``record`` describes, as ``<source>.__schemas`` does; each with the reason,
    and what to do."""
    form, is_full = config.form, record["replica_identity"] == _FULL
    found = {name: why for name, kind in kinds.items() if (why := _loss(form, name, kind, is_full))}
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


def _loss(form: Form, name: str, kind: ColumnKind, is_full: bool) -> str:
    base = kind.element or kind.base
    if reason := loss(form, kind):
        return reason
    if base in ("varbit", "name") and kind.kind != "enum":
        return f"Debezium has no exact form of {base}"
    if form.decimals == "double" and exceeds_double(base, kind.item_typmod):
        return f"decimal.handling.mode = double keeps {EXACT_DIGITS} digits"
    is_told = is_full or not kind.nullable or not may_be_left_out(kind)
    if is_told or left_out_sign(form, name, kind) is not None:
        return ""
    return (
        "Debezium writes null for a large value that an update leaves alone: set REPLICA IDENTITY "
        "FULL, or NOT NULL"
    )
