"""The columns of a view as its store will have them, asked of PostgreSQL, and what is wrong with
them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc.config import OpenSearch, Postgres, Redis
from cdc.errors import ViewError
from cdc.source.postgres import Connection, identifier
from cdc.source.types import load_types

if TYPE_CHECKING:
    from cdc.config import Store, View
    from jobs.state.views.view_names import ViewNames
    from views.maintain.plan import ViewPlan
    from views.types import PgType

    Column = tuple[str, PgType]


def store_columns(
    conn: Connection,
    plan: ViewPlan,
    view: View,
    tables: Mapping[str, str],
    select: str,
    names: ViewNames,
) -> list[Column]:
    """Names and types of those of a SELECT that the source takes, over ``tables``: what is read of
    each, by ``schema.table``. Raises ``ViewError`` for a key of which equal values differ."""
    from jobs.state.views.key_types import refuse_keys_of_several_texts
    from jobs.state.views.known_columns import known_columns
    from jobs.state.views.view_columns import described

    types = load_types(conn)
    known = known_columns(
        conn, view.sql, view.key, tables, tables.__getitem__, types, names, qualified
    )
    found = described(conn, select, types, known)
    refuse_keys_of_several_texts(conn, plan, select, found)
    return [(one.name, one.kind) for one in found]


def check_columns(name: str, view: View, store: Store, columns: Sequence[Column]) -> None:
    """Raise ``ViewError`` unless a store of that kind has such names, and what the view says of the
    store is about columns that it has."""
    from jobs.spark.column_types import columns_named
    from views.parse.store_names import paths_of, unfit

    if found := unfit(store.kind, paths_of(columns)):
        raise ViewError(f"view {name}: {found.reason}", found.hint)
    names = [column for column, _ in columns]
    for setting, named in (("mapping", view.mapping), ("index_by", view.index_by)):
        if unknown := [one for one in named if one not in names]:
            raise ViewError(
                f"view {name}: its {setting} names {', '.join(unknown)}",
                f"choose from the view's columns: {', '.join(names)}",
            )
    _check_prepared(name, view, store, columns_named(columns))
    if fault := view.layout_fault({column: type_.spark for column, type_ in columns}):
        raise ViewError(
            f"view {name}: {fault}",
            "name columns of the view that have an order; give computed columns a name with AS",
        )


def _check_prepared(name: str, view: View, store: Store, columns: Any) -> None:
    """Raise what the store's ``prepare`` would raise of these columns, a ``StructType``, and of the
    view's settings."""
    match store:
        case OpenSearch():
            from headwater.check.index_fields import ask_index
            from jobs.sinks.opensearch.mapping import index_body

            ask_index(store, name, index_body(name, columns, view.key, (), view))
        case Redis():
            from jobs.sinks.redis.layout import check, shape_of

            check(name, shape_of(view), columns)
        case Postgres():
            from jobs.sinks.postgres.table import table_name

            table_name(name, 1)


def qualified(label: str) -> str:
    """``schema.table`` as SQL."""
    schema, _, table = label.partition(".")
    return f"{identifier(schema)}.{identifier(table)}"
