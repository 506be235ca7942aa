"""A mirror that was filled beside the one that is there takes its place."""

from __future__ import annotations

from typing import Final

from cdc.source.postgres import identifier
from jobs.state.mirrors.table import (
    MIRROR_SCHEMA,
    MirrorTable,
    key_sql,
    one_identifier,
    tombstones_sql,
)
from jobs.state.server.connection import Connection

# What stands behind the names of the index and of its table.
_INDEXES: Final = """
select c.relname, pg_catalog.replace(
    pg_catalog.pg_get_indexdef(i.indexrelid),
    pg_catalog.format('CREATE INDEX %%I ON %%I.%%I ', c.relname, n.nspname, t.relname), '')
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_class t on t.oid = i.indrelid
join pg_catalog.pg_namespace n on n.oid = t.relnamespace
where n.nspname = %s and t.relname = %s and not i.indisunique
order by c.relname
"""


def copy_target(table: MirrorTable) -> str:
    """The name of the table that is filled, as SQL; its transaction makes and renames it."""
    return f"{MIRROR_SCHEMA}.{identifier(one_identifier('~fill', table.relation_name))}"


def finish(state: Connection, table: MirrorTable, beside: str) -> None:
    """Give the filled table its key and the indexes of the mirror that is there, and put it into
    that one's place; in the caller's transaction. Raises ``psycopg.errors.UniqueViolation``."""
    state.execute(key_sql(table, beside).encode())
    parameters = (MIRROR_SCHEMA, table.relation_name)
    indexes = state.execute(_INDEXES, parameters).fetchall()
    for number, (_, definition) in enumerate(indexes):
        name = identifier(one_identifier(f"~fill{number}", table.relation_name))
        state.execute(f"create index {name} on {beside} {definition}".encode())
    state.execute(f"analyze {beside}".encode())
    # From here on others wait: it is a moment.
    state.execute(f"drop table if exists {table.relation}".encode())
    state.execute(f"alter table {beside} rename to {identifier(table.relation_name)}".encode())
    for number, (name, _) in enumerate(indexes):
        beside_name = identifier(one_identifier(f"~fill{number}", table.relation_name))
        renamed = f"alter index {MIRROR_SCHEMA}.{beside_name} rename to {identifier(name)}"
        state.execute(renamed.encode())
    for statement in tombstones_sql(table):
        state.execute(statement.encode())
