"""Where the snapshots of a source stand, kept in the source's schema ``headwater``.

    (none) ──begin──▶ running ──complete──▶ complete
                       │  ▲ └─cancel─▶ cancelled
              pause, fault  │ resume
                       ▼  │
                  paused, failed

``running`` is written before the slot is made, so every crash leaves either nothing or ``running``.
A source has one initial snapshot; ``begin`` forgets the one before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cdc.errors import SourceError
from cdc.lsn import format_lsn, parse_lsn
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.schema_owner import refuse_lesser_owner

_COLUMNS = """
select s.id, s.slot, s.status, s.consistent_point::text, %s
from headwater.snapshot s where s.source = %%s """
_INITIAL = _COLUMNS % "s.options -> 'form', s.options -> 'routed'" + "and s.kind = 'initial'"
_MADE = """
select exists (select from pg_catalog.pg_class c
               where c.oid = pg_catalog.to_regclass('headwater.snapshot')),
       exists (select from pg_catalog.pg_attribute a
               where a.attrelid = pg_catalog.to_regclass('headwater.snapshot')
                 and a.attname = 'kind'),
       exists (select from pg_catalog.pg_attribute a
               where a.attrelid = pg_catalog.to_regclass('headwater.snapshot_chunk')
                 and a.attname = 'dead_letters')
"""
_BEFORE_CHUNKS = _COLUMNS % "null::jsonb, null::jsonb"
_BEGIN = """
insert into headwater.snapshot (source, slot, status, kind, options)
values (%s, %s, 'running', %s, %s::jsonb) returning id
"""
_COMPLETE = """
update headwater.snapshot
set status = 'complete', consistent_point = %s::pg_lsn, finished_at = pg_catalog.now(),
    wanted = null, error = null
where id = %s
"""
_SET = """
update headwater.snapshot
set status = %s, wanted = null, error = %s,
    finished_at = case when %s in ('cancelled') then pg_catalog.now() end
where id = %s
"""
_TABLES = """
select schema_name, table_name, row_count from headwater.snapshot_table
where snapshot_id = %s order by schema_name, table_name
"""
_DEAD_LETTERS = """
select schema_name || '.' || table_name, dead_letters from headwater.snapshot_table
where snapshot_id = %s and dead_letters > 0 order by schema_name, table_name
"""
_LOCK_CLASS: Final = 0x6877_736E  # "hwsn"
_TRY_LOCK = "select pg_catalog.pg_try_advisory_lock(%s, %s)"
_LOCKED = """
select l.objid::bigint from pg_catalog.pg_locks l
join pg_catalog.pg_database d on d.oid = l.database and d.datname = pg_catalog.current_database()
where l.locktype = 'advisory' and l.granted and l.classid = %s::oid and l.objsubid = 2
"""


class SnapshotState(NamedTuple):
    """A row of ``headwater.snapshot``."""

    id: int
    slot: str
    status: str
    consistent_point: int | None
    form: Mapping[str, Any] = MappingProxyType({})
    """What its events were begun with (``cdc.events.form``)."""
    routed: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """Where tables were put that have routes, as in a mark."""

    @property
    def complete(self) -> bool:
        return self.status == "complete"


def read_state(conn: Connection, source: str) -> SnapshotState | None:
    """The state of the source's initial snapshot; None before the first ``headwater init``.

    Raises ``SourceError`` for a superuser where the schema is a lesser role's.
    """
    refuse_lesser_owner(conn)
    with translated("reading headwater.snapshot"):
        made = conn.execute(_MADE).fetchone()
        assert made is not None
        if not made[0]:
            return None
        row = conn.execute(_INITIAL if made[1] else _BEFORE_CHUNKS, (source,)).fetchone()
    if row is None:
        return None
    point = None if row[3] is None else parse_lsn(row[3])
    return SnapshotState(row[0], row[1], row[2], point, row[4] or {}, row[5] or {})


def refuse_older_schema(conn: Connection) -> None:
    """Raises ``SourceError`` where the schema headwater is not there, or does not count what is
    counted now, and for a superuser where it is a lesser role's."""
    refuse_lesser_owner(conn)
    with translated("reading headwater.snapshot"):
        made = conn.execute(_MADE).fetchone()
    if made is None or not made[0]:
        raise SourceError(
            "this database is not set up: it has no table headwater.snapshot",
            "run `headwater init`",
        )
    if not made[2]:
        raise SourceError(
            "the schema headwater was created by an earlier version of Headwater",
            "run `headwater init`, which only migrates the schema",
        )


def begin(
    conn: Connection,
    source: str,
    slot: str,
    form: Mapping[str, Any] = MappingProxyType({}),
    routed: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> int:
    """Record that an initial snapshot runs, in place of any earlier one, and the form of its events
    (``cdc.events.form``) and where routes put them; its id."""
    with translated("writing headwater.snapshot"), conn.transaction():
        conn.execute(
            "delete from headwater.snapshot where source = %s and kind = 'initial'", (source,)
        )
        given = {"form": dict(form), "routed": {label: dict(of) for label, of in routed.items()}}
        options = {name: value for name, value in given.items() if value}
        return _insert(conn, source, slot, "initial", options)


def begin_on_demand(conn: Connection, source: str, options: Mapping[str, Any]) -> int:
    """Record a snapshot on demand; its id."""
    with translated("writing headwater.snapshot"):
        return _insert(conn, source, None, "on_demand", options)


def _insert(
    conn: Connection, source: str, slot: str | None, kind: str, options: Mapping[str, Any]
) -> int:
    row = conn.execute(_BEGIN, (source, slot, kind, json.dumps(options))).fetchone()
    assert row is not None
    return int(row[0])


def wanted(conn: Connection, snapshot_id: int) -> str | None:
    """What somebody asks of the process that runs a snapshot: ``pause``, ``cancel`` or nothing.

    A snapshot that is gone is to be cancelled.
    """
    with translated("reading headwater.snapshot"):
        row = conn.execute(
            "select wanted from headwater.snapshot where id = %s", (snapshot_id,)
        ).fetchone()
    return "cancel" if row is None else row[0]


def ask(conn: Connection, snapshot_id: int, what: str) -> None:
    """Ask for ``pause`` or ``cancel``; who runs it looks every second."""
    with translated("writing headwater.snapshot"):
        conn.execute("update headwater.snapshot set wanted = %s where id = %s", (what, snapshot_id))


def set_status(conn: Connection, snapshot_id: int, status: str, error: str | None = None) -> None:
    """Record that it runs (again), was paused, failed or was cancelled."""
    with translated("writing headwater.snapshot"):
        conn.execute(_SET, (status, error, status, snapshot_id))


def complete(conn: Connection, snapshot_id: int, consistent_point: int) -> None:
    """Record that everything is in Kafka: the stream may begin at ``consistent_point``."""
    with translated("writing headwater.snapshot"):
        conn.execute(_COMPLETE, (format_lsn(consistent_point), snapshot_id))


def table_rows(conn: Connection, snapshot_id: int) -> dict[str, int]:
    """Rows of each table that are in its topic."""
    with translated("reading headwater.snapshot_table"):
        rows = conn.execute(_TABLES, (snapshot_id,)).fetchall()
    return {f"{schema}.{table}": count for schema, table, count in rows}


def dead_letters(conn: Connection, snapshot_id: int) -> dict[str, int]:
    """Rows of each table that were too large for Kafka; of tables without any nothing."""
    with translated("reading headwater.snapshot_table"):
        return dict(conn.execute(_DEAD_LETTERS, (snapshot_id,)).fetchall())


def lock(conn: Connection, snapshot_id: int) -> bool:
    """Be the one process that runs this snapshot, until the session ends."""
    with translated("locking the snapshot"):
        row = conn.execute(_TRY_LOCK, (_LOCK_CLASS, snapshot_id)).fetchone()
    return row == (True,)


def running_ids(conn: Connection) -> set[int]:
    """Snapshots that a process runs at this moment."""
    with translated("reading pg_locks"):
        return {row[0] for row in conn.execute(_LOCKED, (_LOCK_CLASS,))}


def forget(conn: Connection, snapshot_id: int) -> None:
    """Delete a snapshot's record, its tables and chunks with it."""
    with translated("deleting from headwater.snapshot"):
        conn.execute("delete from headwater.snapshot where id = %s", (snapshot_id,))
