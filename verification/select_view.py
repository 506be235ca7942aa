"""A view of any SELECT, as it is verified: its columns are what PostgreSQL says of the SELECT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdc.errors import ViewError
from cdc.source.postgres import Connection, translated
from cdc.source.types import load_types
from jobs.state.view_columns import ViewColumn, described
from views.resolve import Output
from views.table_references import RelationOf, TableName, reading, tables_read
from views.types import PgType

SEARCH_PATH: Final = "set local search_path = pg_catalog, public"
"""Of the SQL of such views: names that are not qualified are the system's or in ``public``."""


@dataclass(frozen=True, slots=True)
class SelectView:
    """``tables`` are what ``sql`` reads, each once."""

    name: str
    key: tuple[str, ...]
    sql: str
    tables: tuple[TableName, ...]
    columns: tuple[ViewColumn, ...]

    @property
    def outputs(self) -> tuple[Output, ...]:
        return tuple(Output(one.name, one.kind, "", None) for one in self.columns)

    def reading(self, relation: RelationOf) -> str:
        """The SQL as it was written, but for its tables."""
        return reading(self.name, self.sql, relation)


def described_view(
    conn: Connection,
    name: str,
    key: Sequence[str],
    sql: str,
    relation: RelationOf,
    known: Mapping[str, PgType] | None = None,
) -> SelectView:
    """The view as the source describes it now, reading ``relation`` in place of each table.

    Raises ``SourceError`` for SQL that the source refuses, ``ViewError`` for a key that is no
    column. ``known`` as of ``jobs.state.view_columns.described``.
    """
    types = load_types(conn)
    select = f"\n{reading(name, sql, relation)}\n"
    with translated(f"describing view {name}"), conn.transaction():
        conn.execute(SEARCH_PATH)
        columns = described(conn, select, types, known)
    names = [column.name for column in columns]
    for column in key:
        if column not in names:
            raise ViewError(
                f"views.{name}.key: {column!r} is not a column of the view",
                f"it has {', '.join(names)}",
            )
    return SelectView(name, tuple(key), sql, tables_read(name, sql), columns)
