"""How a snapshot stands, for whoever waits for it or shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

from cdc.errors import SourceError
from cdc.lsn import parse_lsn
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from snapshots import state

_SNAPSHOTS = """
select s.id, s.kind, s.status, s.options, s.error, s.started_at, s.finished_at,
       array(select p.lsn::text from headwater.snapshot_point p
             where p.snapshot_id = s.id order by p.lsn),
       (select max(p.taken_at) from headwater.snapshot_point p where p.snapshot_id = s.id)
from headwater.snapshot s
where s.source = %(source)s and (%(id)s::bigint is null or s.id = %(id)s) order by s.id
"""
_UNFINISHED = """
select s.id from headwater.snapshot s
where s.source = %s and s.status not in ('complete', 'cancelled') order by s.id
"""
_TABLES = """
select t.schema_name || '.' || t.table_name, t.topic,
       case when t.finished_at is null then coalesce(c.rows, 0) else t.row_count end,
       t.estimated_rows, coalesce(c.chunks, 0), coalesce(c.done, 0), t.finished_at is not null,
       case when t.finished_at is null then coalesce(c.dead_letters, 0) else t.dead_letters end,
       coalesce(c.lately, 0), c.newest, now()
from headwater.snapshot_table t
left join lateral (
    select sum(c.row_count)::bigint as rows, count(*) as chunks, count(c.lsn) as done,
           sum(c.dead_letters)::bigint as dead_letters,
           sum(c.row_count) filter (where c.finished_at >= %(since)s)::bigint as lately,
           max(c.finished_at) as newest
    from headwater.snapshot_chunk c
    where (c.snapshot_id, c.schema_name, c.table_name)
        = (t.snapshot_id, t.schema_name, t.table_name)) c on true
where t.snapshot_id = %(id)s order by 1
"""

_EXPECTED: Final = frozenset({"running", "interrupted", "failed"})
"""Somebody waits for those: one whose process has ended does not get on, either."""


class TableStanding(NamedTuple):
    """One table: ``rows`` are in its topic, of ``done`` of ``chunks`` chunks; ``dead_letters`` were
    too large for that. ``rows_s`` and ``left_s`` are of the present run, None without one."""

    label: str
    topic: str | None
    rows: int
    estimated_rows: int
    chunks: int
    done: int
    finished: bool
    dead_letters: int
    rows_s: float | None = None
    left_s: float | None = None

    @property
    def share(self) -> float:
        """How much of the table is read, from 0 to 1."""
        if self.finished:
            return 1.0
        return self.done / self.chunks if self.chunks else 0.0


class Standing(NamedTuple):
    """A snapshot. ``status`` is running, paused, failed, interrupted, cancelled or complete.

    ``points`` are the LSNs that rows were read at: the first one is the LSN from which the stream
    has to be applied on top of them.
    """

    id: int
    kind: str
    status: str
    options: dict[str, Any]
    error: str | None
    started_at: datetime
    finished_at: datetime | None
    points: list[int]
    tables: list[TableStanding]
    moved_at: datetime | None = None
    """When a chunk was last completed, or the last run began; None of one that nobody expects to
    get on, as a paused one."""

    @property
    def complete(self) -> bool:
        return self.status == "complete"

    @property
    def joining(self) -> list[str]:
        """The tables that it takes into the stream; of others no row goes to a table's topic."""
        return list(self.options.get("joining", ()))

    @property
    def lsn(self) -> int | None:
        """The smallest LSN that rows were read at; None before the first."""
        return self.points[0] if self.points else None

    @property
    def rows(self) -> int:
        """Rows in the topics, of all tables."""
        return sum(table.rows for table in self.tables)

    @property
    def dead_letters(self) -> int:
        """Rows that were too large for Kafka."""
        return sum(table.dead_letters for table in self.tables)


def snapshots(conn: Connection, source: str, snapshot_id: int | None = None) -> list[Standing]:
    """The snapshots of a source, or one of them, by id."""
    state.refuse_older_schema(conn)
    with translated("reading headwater.snapshot"):
        rows = conn.execute(_SNAPSHOTS, {"source": source, "id": snapshot_id}).fetchall()
        running = state.running_ids(conn)
        return [_standing(conn, row, row[0] in running) for row in rows]


def snapshot(conn: Connection, source: str, snapshot_id: int) -> Standing:
    """One snapshot. Raises ``SourceError`` when there is none of that id."""
    found = snapshots(conn, source, snapshot_id)
    if not found:
        raise SourceError(
            f"source {source} has no snapshot {snapshot_id}", "run `headwater snapshot list`"
        )
    return found[0]


def unfinished(conn: Connection, source: str) -> list[Standing]:
    """The snapshots of a source that are neither complete nor cancelled."""
    state.refuse_older_schema(conn)
    with translated("reading headwater.snapshot"):
        ids = conn.execute(_UNFINISHED, (source,)).fetchall()
    return [one for (number,) in ids for one in snapshots(conn, source, number)]


def _standing(conn: Connection, row: Any, alive: bool) -> Standing:
    id_, kind, status, options, error, started, finished, points, since = row
    if status == "running" and not alive:
        status = "interrupted"
    found = conn.execute(_TABLES, {"id": id_, "since": since}).fetchall()
    tables = [_table(entry, since if alive else None) for entry in found]
    lsns = [parse_lsn(point) for point in points]
    newest = [entry[9] for entry in found if entry[9] is not None]
    moved = max([since or started, *newest]) if status in _EXPECTED else None
    return Standing(id_, kind, status, options, error, started, finished, lsns, tables, moved)


def _table(row: Any, since: datetime | None) -> TableStanding:
    table = TableStanding(*row[:8])
    lately, newest, now = row[8:]
    if since is None or table.finished or newest is None or not lately:
        return table
    rows_s = float(lately) / max(0.001, (now - since).total_seconds())
    known = table.rows / table.share if table.share else table.estimated_rows
    left_s = max(0.0, float(known) - table.rows) / rows_s
    return table._replace(rows_s=rows_s, left_s=left_s)
