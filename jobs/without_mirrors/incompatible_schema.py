"""Why a view cannot go on over tables that are not what they were, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.errors import ViewError
from views.column_changes import column_changes
from views.table_versions import TableVersion, other_names


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
