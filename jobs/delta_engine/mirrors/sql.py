"""What is asked of a mirror, as SQL of the engine inside delta-rs (DataFusion). Pure.

The mirror is called ``m``; a relation of wanted keys ``w``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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


def is_in(columns: Sequence[str]) -> str:
    """A condition: the columns are together a row of ``w``."""
    same = " AND ".join(f"w.{quoted(name)} = m.{quoted(name)}" for name in columns)
    return f"EXISTS (SELECT 1 FROM w WHERE {same})"
