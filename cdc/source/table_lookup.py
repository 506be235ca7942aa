"""Tables of the source by their names, and the files that they lie in."""

from __future__ import annotations

from cdc.errors import SourceError
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_TABLE = """
select c.oid::bigint, c.relkind from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s
"""

_FILES = """
select coalesce(string_agg(c.relfilenode::text, ',' order by c.oid), ''),
       coalesce(string_agg(pg_catalog.pg_relation_filenode(c.oid)::text, ',' order by c.oid), '')
from pg_catalog.pg_class c
where c.relkind <> 'p' and c.oid in (
    select %(oid)s::oid
    union all select t.relid from pg_catalog.pg_partition_tree(%(oid)s::oid) t)
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


def lock_against_ddl(conn: Connection, name: str) -> None:
    """Keep DDL away from a table, and from its partitions if it is a root, until the transaction
    ends; ``name`` is SQL's. The lock is ACCESS SHARE, as that of ``LOCK TABLE``, which demands a
    right on the whole table: for this SELECT on any of its columns is enough."""
    conn.execute(f"SELECT FROM {name} LIMIT 0".encode(), prepare=False)


def labels_now(conn: Connection, oid: int) -> list[str]:
    """What a table, and the partitioned ones that it is in, are called now, ``schema.table``."""
    with translated(f"looking for the name of table {oid}"):
        return [name for (name,) in conn.execute(_LABELS, {"oid": oid})]
