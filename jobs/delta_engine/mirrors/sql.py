"""What is asked of a mirror, as SQL of the engine inside delta-rs (DataFusion). Pure.

The mirror is called ``m``; a relation of wanted values, if there is one, ``w``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL

ATTEMPT = "__attempt"


def stored(name: str) -> str:
    """What a column is called in the table: Delta takes none of a few characters."""
    return re.sub(r"[ ,;{}()\n\t=%]", lambda one: f"%{ord(one[0]):02x}", name)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def versions(columns: Sequence[str], key: Sequence[str], upto: int | None, wanted: str) -> str:
    """The newest version of each key, deletions among them, where ``wanted``, a condition on the
    key, holds. ``upto`` leaves out what later attempts wrote."""
    conditions = [wanted] if upto is None else [wanted, f"{quoted(ATTEMPT)} <= {upto}"]
    keys = ", ".join(map(quoted, key))
    order = ", ".join(f"{quoted(name)} DESC" for name in (COMMIT_LSN, ORDINAL, ATTEMPT))
    shown = ", ".join(map(quoted, columns))
    return (
        f"SELECT {shown} FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {order})"
        f" AS __nth FROM m WHERE {' AND '.join(conditions)}) n WHERE __nth = 1"
    )


def unsettled(key: Sequence[str], settled: int) -> str:
    """The keys that attempts after ``settled`` wrote."""
    keys = ", ".join(map(quoted, key))
    return f"SELECT DISTINCT {keys} FROM m WHERE {quoted(ATTEMPT)} > {settled}"


def count() -> str:
    """How many versions there are."""
    return "SELECT count(*) FROM m"


def live(versions: str) -> str:
    """How many of the versions that a query gives are no deletions."""
    return f"SELECT count(*) FROM ({versions}) v WHERE NOT {quoted(DELETED)}"


def newest_deletion() -> str:
    """Where the newest deletion stands, if there is one."""
    place = ", ".join(map(quoted, (COMMIT_LSN, ORDINAL)))
    order = ", ".join(f"{quoted(name)} DESC" for name in (COMMIT_LSN, ORDINAL))
    return f"SELECT {place} FROM m WHERE {quoted(DELETED)} ORDER BY {order} LIMIT 1"


def agree(wanted: Mapping[str, Sequence[Any]]) -> str | None:
    """A condition: each column has one of the values wanted of it, which may be more than is wanted
    of them together. None where a value cannot be written down exactly."""
    parts = [is_one_of(name, list(dict.fromkeys(values))) for name, values in wanted.items()]
    if any(part is None for part in parts):
        return None
    return " AND ".join(filter(None, parts))


def is_one_of(column: str, values: Sequence[Any]) -> str | None:
    """A condition on a column; None where a value cannot be written down exactly."""
    literals = [_literal(value) for value in values]
    if any(literal is None for literal in literals):
        return None
    return f"{quoted(column)} IN ({', '.join(filter(None, literals))})"


def is_in(columns: Sequence[str]) -> str:
    """A condition: the columns are together a row of ``w``."""
    same = " AND ".join(f"w.{quoted(name)} = m.{quoted(name)}" for name in columns)
    return f"EXISTS (SELECT 1 FROM w WHERE {same})"


def _literal(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return None if "\x00" in value else "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        kind = "Timestamp(Microsecond, None)"
        if value.tzinfo is not None:
            kind = 'Timestamp(Microsecond, Some("UTC"))'
        return f"arrow_cast('{value.isoformat()}', '{kind}')"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Decimal):
        digits = value.as_tuple()
        scale = max(-int(digits.exponent), 0)
        precision = max(len(digits.digits), scale + 1)
        return f"arrow_cast('{value:f}', 'Decimal128({precision}, {scale})')"
    return None
