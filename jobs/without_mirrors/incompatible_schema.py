"""Why a view cannot go on over tables that are not what they were, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.errors import ViewError
from jobs.spark.event_values import keeps_values
from views.column_changes import column_changes
from views.spark.resolution import ResolvedView
from views.table_versions import TableColumn, TableVersion, other_names
from views.types import collated

_TEXTS = {"text", "varchar", "citext", "enum"}


def no_longer(
    view: str,
    reason: str,
    were: Mapping[str, TableVersion],
    are: Mapping[str, TableVersion],
) -> ViewError:
    """With what changed of the tables, and the names that columns may have now."""
    changed, names = [], []
    for name, was in were.items():
        now = are.get(name, was)
        if now.key != was.key:
            before, after = ", ".join(was.key), ", ".join(now.key)
            changed.append(f"{name} had the key ({before}), has ({after})")
        if now.schema_id != was.schema_id:
            changed.append(f"{name} {column_changes(was.types, now.types)}")
        names += [f"{one!r} to {two!r}" for one, two in other_names(was, now).items()]
    adapt = "adapt the view's SQL if it has to be"
    if names:  # a column that was dropped and another that was added look the same
        adapt = f"if it is RENAME COLUMN that took {', '.join(names)}, write so in the view's SQL"
    return ViewError(
        "; ".join([reason, *changed]), f"{adapt}, and run `headwater view rebuild {view}`"
    )


def other_values(view: str, was: TableVersion, now: TableVersion, column: str) -> ViewError:
    """That a column of a table has another type, under which its rows have other values."""
    types = f"was {was.column(column)} and is {now.column(column)} now"
    reason = f"view {view}: column {column!r} of {now.name} {types}"
    return no_longer(view, reason, {now.name: was}, {now.name: now})


def refuse_rewritten(view: ResolvedView, was: TableVersion) -> None:
    """Raise ``ViewError`` where ALTER TYPE gave the table's rows texts that no event tells of:
    ``char(n)`` of another length, or as text. Where Spark's type is another one, the store says
    what it can hold. ``was`` is the table when the view's generation began."""
    read = {output.source for output in view.outputs} | view.computed_from
    for name in sorted(one for one in read if one is not None):
        one, other = was.column(name), view.table.column(name)
        if one is None or other is None or one.type.spark != other.type.spark:
            continue
        one, other = _any_collation(one), _any_collation(other)
        if not ({one.type.name, other.type.name} <= _TEXTS or keeps_values(one, other)):
            raise other_values(view.name, was, view.table, name)


def _any_collation(column: TableColumn) -> TableColumn:
    return column._replace(type=collated(column.type)[0])
