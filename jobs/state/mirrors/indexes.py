"""Indexes of mirrors: what key queries and recomputations of views look up.

One index serves all views that want it. A B-tree refuses values of more than a third of a page, and
with them the batch that brings one; so types of any length have hash indexes, of one column each,
which take any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg.types.json import Jsonb

from jobs.state.mirrors.table import MIRROR_SCHEMA
from jobs.state.server.connection import Connection, translated
from jobs.state.views.view_generation import Relation, quoted
from views.maintain import Index

_SHORT: Final = ("numeric", "inet", "cidr")
"""Beside types of one length."""
_FIELD: Final = "indexes"
_SPARE: Final = rf"""
select c.relname from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = %(schema)s and c.relname ~ '^ix_[0-9a-f]{{24}}$' and not exists (
    select from headwater.views v
    where not v.plan ? '{_FIELD}' or v.plan -> '{_FIELD}' ? c.relname::text)
order by c.relname
"""
_NO_OPERATORS: Final = "42704"
"""SQLSTATE of a type that nothing orders."""


def make_indexes(
    conn: Connection, view_id: int, indexes: Sequence[Index], relation: Relation
) -> None:
    """Make those of a generation that are not there yet, and note which it needs; in the caller's
    transaction."""
    names = []
    for index in indexes:
        mirror = relation(index.table)
        for method, expressions in _methods(conn, index, mirror):
            name = _name(index.table, method, expressions)
            names.append(name)
            statement = (
                f"create index if not exists {quoted(name)} on {mirror} using {method} "
                f"({', '.join(expressions)})"
            )
            with translated(f"indexing the mirror of {index.table}"):
                try:
                    with conn.transaction():
                        conn.execute(statement.encode())
                except psycopg.Error as error:
                    if error.sqlstate != _NO_OPERATORS:  # else it is read whole
                        raise
    conn.execute(
        b"update headwater.views set plan = plan || %s where id = %s",
        (Jsonb({_FIELD: names}), view_id),
    )


def drop_spare_indexes(conn: Connection) -> list[str]:
    """Drop those that no generation needs any more, each in a transaction of its own; what is gone.
    No batch is applied and no generation begun meanwhile. None is dropped while there are
    generations of an older Headwater, which has not noted what they need."""
    with translated("looking for indexes that no view needs"):
        names = [name for (name,) in conn.execute(_SPARE, {"schema": MIRROR_SCHEMA}).fetchall()]
        return [name for name in names if _dropped(conn, name)]


def _dropped(conn: Connection, name: str) -> bool:
    """Whether an index is gone now. One of a mirror that is being read for long stays: who waits
    for it would keep all others from the mirror."""
    try:
        with conn.transaction():
            conn.execute(b"set local lock_timeout = '100ms'")
            conn.execute(f"drop index if exists {MIRROR_SCHEMA}.{quoted(name)}".encode())
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _methods(conn: Connection, index: Index, mirror: str) -> list[tuple[str, tuple[str, ...]]]:
    """How an index is made: its method, and what it is of."""
    if index.expression:
        return [("hash", (f"({index.expression})",))]
    query = (
        b"select a.attname, t.typlen > 0 or "
        b"pg_catalog.format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null) = any(%s) "
        b"from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid "
        b"where a.attrelid = %s::regclass and a.attname = any(%s)"
    )
    found = conn.execute(query, ([*_SHORT], mirror, [*index.columns])).fetchall()
    is_bounded: dict[str, bool] = dict(found)
    bounded = tuple(quoted(one) for one in index.columns if is_bounded[one])
    others = [quoted(one) for one in index.columns if not is_bounded[one]]
    if bounded:
        return [("btree", bounded)]
    return [("hash", (others[0],))]


def _name(table: str, method: str, expressions: Sequence[str]) -> str:
    told = "\n".join([table, method, *expressions])
    return f"ix_{hashlib.sha256(told.encode()).hexdigest()[:24]}"
