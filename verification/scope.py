"""A view's SQL with its tables narrowed to what the publication publishes of them.

PostgreSQL would run it on whole tables, and on those that inherit from them; a view holds what the
stream and the snapshot hold: the published rows and columns of the table that was named. Columns
have the names that the view knows them by, whatever they are called by now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from cdc.protocol.relation import Relation
from cdc.source.catalog import published, relation, select_rows
from cdc.source.errors import translated
from cdc.source.postgres import Connection, identifier
from cdc.source.table_lookup import table_of
from cdc.source.types import load_types
from verification.select_view import SelectView
from verification.values.treated_values import TreatedValues
from verification.values.zoned_times import in_utc
from views.parse.table_references import RelationOf
from views.spark.resolution import ResolvedView
from views.spark.view import View
from views.table_versions import TableVersion

# A generated column that was not granted is computed from what must not be read.
_COLUMNS = """
select a.attname,
       a.attgenerated = '' or pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')
from pg_catalog.pg_attribute a
where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped
"""


_AS_THEY_ARE: Final = TreatedValues()


def published_sql(
    conn: Connection,
    view: View | SelectView,
    publication: str,
    treated: TreatedValues = _AS_THEY_ARE,
) -> str:
    """The SQL as it was written but for its tables, whose values are those that events have, and
    whose treated columns are tagged. Raises ``SourceError`` if one is gone."""
    if isinstance(view, SelectView):
        return view.reading(published_relations(conn, publication, treated=treated, sent=True))
    return view.reading(published_rows(conn, view, publication, treated))


def published_relations(
    conn: Connection,
    publication: str,
    excluded: Callable[[str], Collection[str]] = lambda _label: (),
    treated: TreatedValues = _AS_THEY_ARE,
    *,
    sent: bool = False,
) -> RelationOf:
    """What is published of a table, by schema and name: the table itself where that is all of it,
    for its key tells PostgreSQL which columns GROUP BY settles, else a SELECT in parentheses. With
    generated columns that are not, for mirrors compute them. Without those that are ``excluded`` of
    a ``schema.table``, also while the publication has them. ``sent``: with the values that events
    have, where these are others (``zoned_times``)."""
    types = load_types(conn)

    def found(schema: str, table: str) -> str:
        oid, kind = table_of(conn, schema, table)
        shape = relation(conn, oid, types, publication, computed=True)
        with translated(f"reading the columns of {schema}.{table}"):
            there: dict[str, bool] = dict(conn.execute(_COLUMNS, (oid,)).fetchall())
        left_out = excluded(f"{schema}.{table}")
        seen = {
            one.name: one.name
            for one in shape.columns
            if one.name not in left_out and there.get(one.name)
        }
        filtered = published(conn, oid, publication).row_filter is not None
        shown = (in_utc(shape.columns) if sent else {}) | treated.tagged(shape.name)
        if filtered or shown or len(there) != len(seen):
            return f"({select_rows(conn, shape, kind, publication, seen, shown)})"
        return f"{'' if kind == 'p' else 'only '}{identifier(schema)}.{identifier(table)}"

    return found


def tables_read(view: View | SelectView) -> list[tuple[str, str]]:
    """Schema and name of each table that a view reads, each once."""
    if isinstance(view, SelectView):
        return [(one.schema, one.table) for one in view.tables]
    return list(dict.fromkeys((o.schema, o.table) for o in view.definition.occurrences))


def published_rows(
    conn: Connection, view: View, publication: str, treated: TreatedValues = _AS_THEY_ARE
) -> Callable[[str, str], str]:
    """SELECT of what is published of one of the view's tables, by schema and name."""
    types, known = load_types(conn), {table.name: table for table in tables_of(view)}

    def rows(schema: str, table: str) -> str:
        oid, kind = table_of(conn, schema, table)
        shape = relation(conn, oid, types, publication)
        names = names_in(known[f"{schema}.{table}"], shape)
        shown = in_utc(shape.columns) | treated.tagged(shape.name)
        return select_rows(conn, shape, kind, publication, names, shown)

    return rows


def tables_of(view: View) -> Collection[TableVersion]:
    """The tables of a view, each once."""
    if isinstance(view, ResolvedView):
        return [view.table]
    return {table.name: table for table in view.tables.values()}.values()


def names_in(table: TableVersion, shape: Relation) -> dict[str, str] | None:
    """What a view calls the columns of its table, by their names in the source now; None where it
    knows them by these alone."""
    if not table.numbered or table.oid != shape.oid:
        return None
    own = {column.attnum: column.name for column in table.columns}
    return {one.name: own[one.attnum] for one in shape.columns if one.attnum in own}


def names_now(conn: Connection, table: TableVersion, publication: str) -> dict[str, str]:
    """What the source calls the columns of a table, by the names that a view knows them by."""
    oid, _ = table_of(conn, table.schema, table.table)
    names = names_in(table, relation(conn, oid, load_types(conn), publication))
    if names is None:
        return {column.name: column.name for column in table.columns}
    return {own: sent for sent, own in names.items()}
