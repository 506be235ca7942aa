"""What one table's part of a snapshot reads, and how its rows are named in Kafka.

The plan is made inside the snapshot's own transaction, under ACCESS SHARE on the table: from then
on no DDL can change what COPY sees. Columns are named, never ``*``, and the publication's column
list and row filter apply, so the snapshot holds exactly what the stream would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc.config import Source
from cdc.errors import RetryableError
from cdc.protocol.relation import Relation, TypeInfo
from cdc.source.catalog import relation, select_rows
from cdc.source.postgres import Connection, identifier, translated
from cdc.source.selection import Table
from cdc.topics import table_topic

# pg_class is read through the snapshot, to_regclass and pg_relation_filenode look at the present.
_REWRITTEN = """
select %(name)s where pg_catalog.to_regclass(%(name)s)::oid is distinct from %(oid)s::oid
union all
select n.nspname || '.' || c.relname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid in (select %(oid)s::oid
                union all select t.relid from pg_catalog.pg_partition_tree(%(oid)s::oid) t)
  and c.relfilenode <> 0
  and c.relfilenode is distinct from pg_catalog.pg_relation_filenode(c.oid)
"""
_ESTIMATE = """
select coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint
from pg_catalog.pg_class c
where c.relkind <> 'p'
  and c.oid in (select %(oid)s::oid
                union all select t.relid from pg_catalog.pg_partition_tree(%(oid)s::oid) t)
"""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How to read one table: ``statement`` is a COPY, its columns are those of ``relation``."""

    relation: Relation
    topic: str
    statement: str


def plan_table(
    conn: Connection, table: Table, types: Mapping[int, TypeInfo], source: Source
) -> TablePlan:
    """Lock the table against DDL and say how to read it; ``conn`` is inside the snapshot.

    Raises ``RetryableError`` when the table was rewritten after the snapshot was taken, or made
    anew: what ALTER TABLE rewrites looks empty to an older snapshot.
    """
    name = f"{identifier(table.schema)}.{identifier(table.name)}"
    only = "" if table.kind == "p" else "ONLY "
    with translated(f"locking {table.label} for the snapshot"):
        conn.execute(f"LOCK TABLE {only}{name} IN ACCESS SHARE MODE".encode())
        rewritten = conn.execute(_REWRITTEN, {"oid": table.oid, "name": name}).fetchone()
    if rewritten:
        raise RetryableError(
            f"table {rewritten[0]} was rewritten or truncated after the snapshot was taken, or "
            "another has its name now",
            "run headwater init again when that migration is done",
        )
    shape = relation(conn, table.oid, types, source.publication_name, source.keys)
    rows = select_rows(conn, shape, table.kind, source.publication_name)
    topic = table_topic(source.name, table.schema, table.name)
    return TablePlan(shape, topic, f"COPY ({rows}) TO STDOUT")


def estimated_rows(conn: Connection, table: Table) -> int:
    """The planner's idea of the table's size, partitions included; 0 when it has none."""
    with translated(f"estimating the size of {table.label}"):
        row = conn.execute(_ESTIMATE, {"oid": table.oid}).fetchone()
    return int(row[0]) if row else 0
