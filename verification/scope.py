"""A view's SQL with its tables narrowed to what the publication publishes of them.

PostgreSQL would run it on whole tables, and on those that inherit from them; a view holds what the
stream and the snapshot hold: the published rows and columns of the table that was named.
"""

from __future__ import annotations

from collections.abc import Callable

from cdc.errors import SourceError
from cdc.source.catalog import relation, select_rows
from cdc.source.postgres import Connection, translated
from cdc.source.types import load_types
from views.maintained import View

_TABLE = """
select c.oid::bigint, c.relkind from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s
"""


def published_sql(conn: Connection, view: View, publication: str) -> str:
    """The SQL as it was written but for its tables. Raises ``SourceError`` if one is gone."""
    return view.reading(published_rows(conn, publication))


def published_rows(conn: Connection, publication: str) -> Callable[[str, str], str]:
    """SELECT of what is published of a table, by schema and name."""
    types = load_types(conn)

    def rows(schema: str, table: str) -> str:
        oid, kind = table_of(conn, schema, table)
        return select_rows(conn, relation(conn, oid, types, publication), kind, publication)

    return rows


def table_of(conn: Connection, schema: str, table: str) -> tuple[int, str]:
    """A table's OID and ``relkind``. Raises ``SourceError`` if it is gone."""
    with translated(f"looking for table {schema}.{table}"):
        row = conn.execute(_TABLE, (schema, table)).fetchone()
    if row is None:
        raise SourceError(f"table {schema}.{table} is gone", "run headwater check")
    return row[0], row[1]
