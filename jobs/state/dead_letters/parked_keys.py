"""Keys of a view whose rows cannot be made or stored: parked, so that all others go on.

A parked key is not dirty: the next change that touches it dirties it again, and where its row can
be made then, it is parked no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg.types.json import Jsonb

from cdc.errors import ViewError
from jobs.state.batch.stream_offsets import Progress
from jobs.state.server.connection import Connection
from jobs.state.views.view_generation import ViewGeneration, quoted
from jobs.state.views.view_record import ViewRecord, tables_of


class ParkedKey(NamedTuple):
    """``key`` has each value as text; ``since`` is None of one that is being parked."""

    key: tuple[str, ...]
    cause: str
    since: datetime | None = None


def park(conn: Connection, view: ViewGeneration, keys: Sequence[ParkedKey], at_most: int) -> None:
    """Park keys, in the caller's transaction. Raises ``ViewError`` where more than ``at_most``
    would be parked: that many are no bad rows but a bad view, mapping or schema."""
    if not keys:
        return
    conn.cursor().executemany(
        "insert into headwater.parked (view_id, key, cause) values (%s, %s, %s) "
        "on conflict (view_id, key) do update set cause = excluded.cause",
        [(view.id, Jsonb(one.key), one.cause) for one in keys],
    )
    query = "select count(*) from headwater.parked where view_id = %s"
    (parked,) = conn.execute(query, (view.id,)).fetchone() or (0,)
    if parked > at_most:
        raise too_many_parked(view.name, parked, at_most, keys[0].cause)


def too_many_parked(view: str, parked: int, at_most: int, cause: str) -> ViewError:
    """More than ``at_most`` keys of a view would be parked; ``cause`` is one's."""
    return ViewError(
        f"view {view}: {parked} keys cannot be applied, and apply.dlq_limit is {at_most}: {cause}",
        "correct their common cause (the SQL, the mapping, the store), or raise the limit",
    )


def key_at(
    conn: Connection, view: ViewGeneration, places: Sequence[str]
) -> tuple[Progress, tuple[str, ...] | None]:
    """The dirty key at a place (``jobs.state.views.dirty_keys``), None if it is dirty no more; and
    how far the mirrors are."""
    names = ", ".join(f"d.{quoted(column.name)}::text" for column in view.key)
    query = (
        f"select p.batch, p.lsn, p.total, p.committed_at, {names} from headwater.progress p "
        f"left join {view.dirty} d on d.ctid = any(%s::tid[])"
    )
    row = conn.execute(query.encode(), (list(places),)).fetchone()
    assert row is not None, "there is always a progress"
    return Progress(*row[:4]), None if row[4] is None else tuple(row[4:])


def unpark(conn: Connection, view: ViewGeneration, keys: Iterable[Sequence[str]]) -> None:
    """These keys' rows are in the store; in the caller's transaction."""
    found = [Jsonb(list(key)) for key in keys]
    if found:
        query = "delete from headwater.parked where view_id = %s and key = any(%s::jsonb[])"
        conn.execute(query, (view.id, found))


def any_parked(conn: Connection, view: ViewGeneration) -> bool:
    """Whether keys of a view are parked."""
    query = b"select exists (select from headwater.parked where view_id = %s)"
    row = conn.execute(query, (view.id,), prepare=True).fetchone()
    return row is not None and bool(row[0])


def count_parked(conn: Connection, record: ViewRecord) -> int:
    """How many keys wait for a view: its own, and those of its tables."""
    row = conn.execute(
        b"select count(*) from headwater.parked where view_id = %s", (record.id,)
    ).fetchone()
    return (row[0] if row else 0) + count_parked_of_tables(conn, record)


def count_parked_of_tables(conn: Connection, record: ViewRecord) -> int:
    """How many keys of a view's tables wait, because their mirrors could not take a record, or,
    for a history, it could not be given one."""
    row = conn.execute(
        b"select count(distinct (f.mirror_id, f.key)) from headwater.faulty_records f "
        b"join headwater.mirrors m on m.id = f.mirror_id "
        b"where m.schema || '.' || m.name = any(%s) and (f.of_mirror or %s)",
        (sorted(tables_of(record.name, record.sql)), bool(record.history)),
    ).fetchone()
    return row[0] if row else 0


def parked_keys(conn: Connection, view_id: int) -> list[ParkedKey]:
    """Those that wait longest first."""
    query = "select key, cause, since from headwater.parked where view_id = %s order by since, key"
    rows = conn.execute(query, (view_id,)).fetchall()
    return [ParkedKey(tuple(key), cause, since) for key, cause, since in rows]
