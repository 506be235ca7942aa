"""What the state database records of its mirrors: ``headwater.mirrors``.

A mirror is ``filled`` or ``stale``. A stale one is not kept: batches pass over its events, and a
fill at a later LSN makes it exact again. Its rows stay what they were until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from psycopg.types.json import Jsonb

from cdc.lsn import Position
from jobs.state.mirrors.enum_labels import noted_enums
from jobs.state.mirrors.table import (
    MIRROR_SCHEMA,
    NOWHERE,
    MirrorTable,
    table_json,
    with_columns,
    with_former,
)
from jobs.state.server.connection import Connection, translated

FILLED: Final = "filled"
TOMBSTONE_LIFETIME_S: Final = 7 * 86_400
"""How long a deleted key is remembered: as long as a snapshot row may come behind its delete."""

_READ: Final = b"""
select id, schema, name, oid, columns, key, schema_id, fill_lsn, truncated_lsn, truncated_ordinal,
       state, coalesce(reason, ''), coalesce(fill_snapshot, ''), partitioned, left_out
from headwater.mirrors order by id
"""
_SAVE: Final = b"""
insert into headwater.mirrors (schema, name, oid, relation, columns, key, schema_id, fill_lsn,
                               truncated_lsn, truncated_ordinal, filled_at, state, filled_rows,
                               fill_snapshot, partitioned, left_out)
values (%(schema)s, %(name)s, %(oid)s, %(relation)s, %(columns)s, %(key)s, %(schema_id)s,
        %(fill_lsn)s, null, null, now(), 'filled', %(rows)s, %(fill_snapshot)s, %(partitioned)s,
        %(left_out)s)
on conflict (schema, name) do update set
    oid = excluded.oid, relation = excluded.relation, columns = excluded.columns,
    key = excluded.key, schema_id = excluded.schema_id, fill_lsn = excluded.fill_lsn,
    truncated_lsn = null, truncated_ordinal = null, filled_at = excluded.filled_at,
    state = excluded.state, reason = null, filled_rows = excluded.filled_rows,
    fill_snapshot = excluded.fill_snapshot, partitioned = excluded.partitioned,
    left_out = excluded.left_out
returning id
"""
_SIZES: Final = b"""
select m.id, m.schema || '.' || m.name, m.state, coalesce(m.reason, ''),
       greatest(c.reltuples, coalesce(s.n_live_tup, 0), 0)::bigint,
       pg_catalog.pg_table_size(c.oid), pg_catalog.pg_indexes_size(c.oid), m.filled_at
from headwater.mirrors m
join pg_catalog.pg_class c on c.relname = m.relation
join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = %s
left join pg_catalog.pg_stat_user_tables s on s.relid = c.oid
order by 2
"""


class MirrorRecord(NamedTuple):
    """A row of ``headwater.mirrors``. Events below ``fill_lsn`` are in the mirror's rows; what is
    not above ``truncated`` is gone. ``reason`` says why it is stale. ``fill_snapshot`` are the
    transactions that its fill had, in the form of ``pg_current_snapshot``; "" where an earlier
    Headwater filled it."""

    id: int
    table: MirrorTable
    fill_lsn: int
    truncated: Position
    state: str
    reason: str
    fill_snapshot: str = ""

    @property
    def is_filled(self) -> bool:
        return self.state == FILLED


class MirrorSize(NamedTuple):
    """``rows`` is the server's estimate; bytes are those on disk."""

    id: int
    label: str
    state: str
    reason: str
    rows: int
    table_bytes: int
    index_bytes: int
    filled_at: object


def read_mirrors(conn: Connection) -> Mapping[str, MirrorRecord]:
    """All mirrors, by ``schema.table``."""
    with translated("reading the list of mirrors"):
        rows = conn.execute(_READ).fetchall()
        former = {called: tuple(one.now.items()) for called, one in noted_enums(conn).items()}
    found = {}
    for id_, schema, name, oid, columns, key, schema_id, fill, gone, gone_n, *rest in rows:
        state, reason, snapshot, partitioned, left_out = rest
        named = tuple((column, why) for column, why in left_out)
        table = MirrorTable(schema, name, oid, schema_id, (), tuple(key), partitioned, named)
        table = with_former(with_columns(table, columns), former)
        truncated = NOWHERE if gone is None else Position(gone, gone_n)
        found[table.label] = MirrorRecord(id_, table, fill or 0, truncated, state, reason, snapshot)
    return found


def save_filled(
    conn: Connection, table: MirrorTable, fill_lsn: int, rows: int, snapshot: str = ""
) -> int:
    """Record a mirror that was filled, in the transaction that filled it; its id, which it keeps
    when it is filled anew."""
    parameters = _parameters(table) | {
        "fill_lsn": fill_lsn,
        "rows": rows,
        "fill_snapshot": snapshot,
    }
    row = conn.execute(_SAVE, parameters).fetchone()
    assert row is not None, "it returns one"
    return int(row[0])


def save_table(conn: Connection, mirror_id: int, table: MirrorTable) -> None:
    """Record the columns of a mirror that were changed, in the transaction that changed them."""
    conn.execute(
        b"update headwater.mirrors set columns = %(columns)s, key = %(key)s, "
        b"schema_id = %(schema_id)s, left_out = %(left_out)s where id = %(id)s",
        _parameters(table) | {"id": mirror_id},
    )


def mark_stale(conn: Connection, mirror_id: int, reason: str) -> None:
    """Record that a mirror has to be filled anew."""
    conn.execute(
        b"update headwater.mirrors set state = 'stale', reason = %s where id = %s",
        (reason, mirror_id),
    )


def drop_mirror(conn: Connection, record: MirrorRecord) -> None:
    """Remove a mirror that no view needs; in the caller's transaction."""
    with translated(f"dropping the mirror of {record.table.label}"):
        conn.execute(f"drop table if exists {record.table.relation}".encode())
        conn.execute(f"drop table if exists {record.table.tombstones}".encode())
        conn.execute(b"delete from headwater.mirrors where id = %s", (record.id,))


def sizes(conn: Connection) -> list[MirrorSize]:
    """What each mirror takes, for people to see."""
    with translated("reading the sizes of mirrors"):
        return [MirrorSize._make(row) for row in conn.execute(_SIZES, (MIRROR_SCHEMA,))]


def expire_tombstones(conn: Connection, table: MirrorTable, lifetime_s: float) -> int:
    """Forget keys that were deleted longer ago; how many. The position of a row that is there says
    as much, so those of keys that came back need not wait."""
    with translated(f"forgetting deleted keys of {table.label}"):
        condition = "deleted_at < now() - %s * interval '1 s'"
        query = f"delete from {table.tombstones.replace('%', '%%')} where {condition}"
        return conn.execute(query.encode(), (lifetime_s,)).rowcount


def _parameters(table: MirrorTable) -> dict[str, object]:
    return {
        "schema": table.schema,
        "name": table.name,
        "oid": table.oid,
        "relation": table.relation_name,
        "columns": Jsonb(table_json(table)),
        "key": list(table.key),
        "schema_id": table.schema_id,
        "partitioned": table.partitioned,
        "left_out": Jsonb(table.left_out),
    }
