"""Tables of the source by their names, and the files that they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import errors

from cdc.errors import SourceError
from cdc.source.errors import translated
from cdc.source.postgres import LOCK_TIMEOUT_MS, Connection

# Not by pg_partition_tree, which locks each partition: thousands of them would take all places in
# the server's table of locks, which applications need.
PARTITION_TREE: Final = """
with recursive tree (oid) as (
    select %(oid)s::oid
    union all
    select i.inhrelid from tree
    join pg_catalog.pg_inherits i on i.inhparent = tree.oid and not i.inhdetachpending
    join pg_catalog.pg_class p on p.oid = i.inhrelid and p.relispartition
)
"""
"""A table, and its partitions at all levels if it is a root: as ``tree (oid)``."""
_SHORT_WAIT_MS: Final = 20
"""Well below deadlock_timeout (1 s by default): who holds one lock and waits for the next may be
what DDL waits for that holds the next, and PostgreSQL would end one of both."""

_TABLE = """
select c.oid::bigint, c.relkind from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s
"""

_FILES = f"""{PARTITION_TREE}
select coalesce(string_agg(c.relfilenode::text, ',' order by c.oid), ''),
       coalesce(string_agg(pg_catalog.pg_relation_filenode(c.oid)::text, ',' order by c.oid), '')
from pg_catalog.pg_class c
where c.relkind <> 'p' and c.oid in (select oid from tree)
"""

# Of one that is gone, or was renamed, and of one whose file is another: no row.
_SAME_FILES = """
select f.oid::bigint
from unnest(%s::text[], %s::oid[], %s::oid[]) f (name, oid, file)
join pg_catalog.pg_class c on c.oid = f.oid and c.relfilenode = f.file
where pg_catalog.to_regclass(f.name)::oid = f.oid
  and pg_catalog.pg_relation_filenode(f.oid) = f.file
"""

_LABELS = """
select n.nspname || '.' || c.relname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid in (select %(oid)s::oid
                union all select a.relid from pg_catalog.pg_partition_ancestors(%(oid)s::oid) a)
"""


def table_oid(conn: Connection, schema: str, table: str) -> int | None:
    """A table's OID, None without one."""
    with translated(f"looking for table {schema}.{table}"):
        row = conn.execute(_TABLE, (schema, table)).fetchone()
    return None if row is None else row[0]


def table_of(conn: Connection, schema: str, table: str) -> tuple[int, str]:
    """A table's OID and ``relkind``. Raises ``SourceError`` if it is gone."""
    with translated(f"looking for table {schema}.{table}"):
        row = conn.execute(_TABLE, (schema, table)).fetchone()
    if row is None:
        raise SourceError(f"table {schema}.{table} is gone", "run `headwater check`")
    return row[0], row[1]


def table_files(conn: Connection, oid: int) -> tuple[str, str]:
    """The ``relfilenode`` of a table, of all partitions if it is a root: as the snapshot that
    ``conn`` is in has it, and at present. They differ when it was rewritten between."""
    with translated(f"looking for the files of table {oid}"):
        row = conn.execute(_FILES, {"oid": oid}).fetchone()
    assert row is not None
    return row[0], row[1]


def unchanged_files(conn: Connection, relations: Sequence[tuple[str, int, str]]) -> set[int]:
    """The OIDs of those that bear their name, and lie in their file: in the snapshot that ``conn``
    is in and at present. Each is a name, an OID and a ``relfilenode``; a root has no file."""
    names, oids, files = map(list, zip(*relations, strict=True))
    with translated(f"looking for the files of {names[0]}"):
        found = conn.execute(_SAME_FILES, (names, oids, files)).fetchall()
    return {oid for (oid,) in found}


def lock_against_ddl(conn: Connection, name: str) -> None:
    """Keep DDL away from a table, and from its partitions if it is a root, until the transaction
    ends; ``name`` is SQL's. The lock is ACCESS SHARE, as that of ``LOCK TABLE``, which demands a
    right on the whole table: for this SELECT on any of its columns is enough."""
    conn.execute(_lock(name).encode(), prepare=False)


def lock_together(conn: Connection, names: Sequence[str]) -> bool:
    """Lock several tables as ``lock_against_ddl`` does, if none of them is waited for; whether all
    are locked, else none is. ``conn`` is in a transaction."""
    statements = [f"SET LOCAL lock_timeout = {_SHORT_WAIT_MS}", *map(_lock, names)]
    try:
        with conn.transaction():
            conn.execute("; ".join(statements).encode(), prepare=False)
            conn.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}".encode())
    except errors.LockNotAvailable:
        return False
    return True


def _lock(name: str) -> str:
    return f"SELECT FROM {name} LIMIT 0"


def labels_now(conn: Connection, oid: int) -> list[str]:
    """What a table, and the partitioned ones that it is in, are called now, ``schema.table``."""
    with translated(f"looking for the name of table {oid}"):
        return [name for (name,) in conn.execute(_LABELS, {"oid": oid})]
