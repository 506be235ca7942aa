"""A view in a state database, over tables that stand for its mirrors."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jobs.state.server.connection import Connection
from jobs.state.server.migration import migrate
from jobs.state.views.view_generation import ViewGeneration, make_tables, read_key
from jobs.state.views.view_record import LOADED, ViewRecord, add_view, note_loaded
from views.maintain.mirror import MirrorColumn, MirrorTable
from views.maintain.plan import plan_view


def relation(table: str) -> str:
    """The mirror is the table itself."""
    schema, _, name = table.partition(".")
    return f'"{schema}"."{name}"'


def kept_view(
    conn: Connection, name: str, sql: str, key: Sequence[str], tables: Sequence[MirrorTable]
) -> tuple[ViewRecord, ViewGeneration]:
    """A live generation of a view; ``conn`` is in autocommit mode."""
    migrate(conn)
    plan = plan_view(name, sql, key, {table.table: table for table in tables})
    record = add_view(conn, name, 1, sql, key, "store")
    note_loaded(conn, record.id)
    make_tables(conn, record.id, plan, relation)
    view = ViewGeneration(record.id, name, 1, plan, read_key(conn, record.id, plan), relation)
    return record._replace(state=LOADED), view


def table(
    name: str, key: Sequence[str], /, not_null: Collection[str] = (), **columns: str
) -> MirrorTable:
    """A mirror of a table in ``public``; the key's columns hold no NULL either."""
    present = {*key, *not_null}
    made = tuple(MirrorColumn(n, kind, nullable=n not in present) for n, kind in columns.items())
    return MirrorTable("public", name, made, tuple(key))
