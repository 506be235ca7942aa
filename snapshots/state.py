"""Where the initial snapshot of a source stands, kept in the source's schema ``headwater``.

    (none) ──begin──▶ running ──complete──▶ complete
                        └──begin: an interrupted run, or one to be replaced, is forgotten

``running`` is written before the slot is made, so every crash leaves either nothing or ``running``.
"""

from __future__ import annotations

from typing import NamedTuple

from cdc.lsn import format_lsn, parse_lsn
from cdc.source.postgres import Connection, translated

_READ = """
select s.id, s.slot, s.status, s.consistent_point::text
from headwater.snapshot s where s.source = %s
"""
_BEGIN = "insert into headwater.snapshot (source, slot, status) values (%s, %s, 'running') "
_TABLE = """
insert into headwater.snapshot_table (snapshot_id, schema_name, table_name, row_count)
values (%s, %s, %s, %s)
"""
_TABLES = """
select schema_name, table_name, row_count from headwater.snapshot_table
where snapshot_id = %s order by schema_name, table_name
"""
_COMPLETE = """
update headwater.snapshot
set status = 'complete', consistent_point = %s::pg_lsn, finished_at = pg_catalog.now()
where id = %s
"""


class SnapshotState(NamedTuple):
    """A row of ``headwater.snapshot``."""

    id: int
    slot: str
    status: str
    consistent_point: int | None

    @property
    def complete(self) -> bool:
        return self.status == "complete"


def read_state(conn: Connection, source: str) -> SnapshotState | None:
    """The state of the source's initial snapshot; None before the first ``headwater init``."""
    with translated("reading headwater.snapshot"):
        made = conn.execute("select pg_catalog.to_regclass('headwater.snapshot')::text").fetchone()
        if made is None or made[0] is None:
            return None
        row = conn.execute(_READ, (source,)).fetchone()
    if row is None:
        return None
    point = None if row[3] is None else parse_lsn(row[3])
    return SnapshotState(row[0], row[1], row[2], point)


def begin(conn: Connection, source: str, slot: str) -> int:
    """Record that a snapshot runs, in place of any earlier one; its id."""
    with translated("writing headwater.snapshot"), conn.transaction():
        conn.execute("delete from headwater.snapshot where source = %s", (source,))
        row = conn.execute((_BEGIN + "returning id").encode(), (source, slot)).fetchone()
    assert row is not None
    return int(row[0])


def record_table(conn: Connection, snapshot_id: int, schema: str, table: str, rows: int) -> None:
    """Record that a table was read and handed to Kafka."""
    with translated("writing headwater.snapshot_table"):
        conn.execute(_TABLE, (snapshot_id, schema, table, rows))


def table_rows(conn: Connection, snapshot_id: int) -> dict[str, int]:
    """Rows of each table that was read."""
    with translated("reading headwater.snapshot_table"):
        rows = conn.execute(_TABLES, (snapshot_id,)).fetchall()
    return {f"{schema}.{table}": count for schema, table, count in rows}


def complete(conn: Connection, snapshot_id: int, consistent_point: int) -> None:
    """Record that everything is in Kafka: the stream may begin at ``consistent_point``."""
    with translated("writing headwater.snapshot"):
        conn.execute(_COMPLETE, (format_lsn(consistent_point), snapshot_id))
