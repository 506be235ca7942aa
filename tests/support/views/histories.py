"""Tables of history, read by another library than they are written with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql.types import StructType

from cdc.lsn import parse_lsn
from jobs.sinks.delta.delta_reader import opened, stream
from jobs.sinks.delta.history.columns import CONTROL

Row = dict[str, Any]


def rows_of(path: Path, columns: StructType, history: str) -> list[Row]:
    """All rows of a table, with the view's ``columns`` and those beside them."""
    whole = StructType([*columns, *CONTROL[history]])
    table = opened(str(path))
    assert table is not None, f"{path} is no table that delta-rs reads"
    parts = [
        zip(*(part[name] for name in whole.names), strict=True) for part in stream(table, whole)
    ]
    return [dict(zip(whole.names, row, strict=True)) for part in parts for row in part]


def as_of(history: str, rows: list[Row], lsn: int) -> dict[Any, Row]:
    """By ``id``, the rows that were there below an LSN, as ``docs/delta.md`` asks for them."""
    before = [row for row in rows if row["__commit_lsn"] < lsn]
    if history == "scd2":
        before = [row for row in before if row["__to_lsn"] is None or row["__to_lsn"] >= lsn]
        assert len({row["id"] for row in before}) == len(before), f"two versions at {lsn}"
        return {row["id"]: row for row in before}
    before.sort(key=lambda row: (row["__commit_lsn"], row["__ordinal"]))
    newest = {row["id"]: row for row in before}
    return {id_: row for id_, row in newest.items() if row["__op"] not in ("d", "t")}


def at_once(dsn: str, view: str, *statements: str) -> tuple[int, dict[Any, Any]]:
    """Run a transaction; the LSN it is below, and what a view's SQL gives by then, by ``id``."""
    with psycopg.connect(dsn) as conn:
        for statement in statements:
            conn.execute(statement.encode())
        conn.commit()
        rows = {row[0]: row[1:] for row in conn.execute(view.encode())}
        end = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert end is not None
    return parse_lsn(end[0]), rows
