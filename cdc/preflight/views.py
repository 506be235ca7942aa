"""Checks of the declared views against the tables as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc.config import View
from cdc.errors import HeadwaterError, ViewError
from cdc.preflight.finding import Finding
from cdc.preflight.source import Source
from cdc.source.catalog import relation
from cdc.source.types import load_types

if TYPE_CHECKING:
    from views.resolve import ResolvedView


def views(source: Source) -> Iterator[Finding]:
    """One finding for each view of ``[views]``: its SQL, its table, its columns and its key."""
    from views.definition import parse_view
    from views.resolve import resolve
    from views.tables import parse_version

    config = source.config
    if not config.views or not source.tables:  # what is wrong with the tables has been said
        return
    types = load_types(source.conn)
    captured = {(table.schema, table.name): table for table in source.tables}
    publication = config.source.publication_name
    for name, view in config.views.items():
        check = f"view {name}"
        try:
            definition = parse_view(name, view.store, view.key, view.sql)
            table = captured.get((definition.schema, definition.table))
            if table is None:
                hint = "add it to source.tables, or correct the view's SQL"
                message = f"view {name}: table {definition.table_name} is not captured"
                yield Finding("error", check, message, hint)
                continue
            shape = relation(source.conn, table.oid, types, publication, config.source.keys)
            resolved = resolve(definition, parse_version(shape.describe()))
            _check_columns(resolved, view)
        except HeadwaterError as error:
            yield Finding("error", check, error.message, error.hint)
        else:
            yield Finding("ok", check, f"in {view.store}: {resolved.describe()}")


def _check_columns(resolved: ResolvedView, view: View) -> None:
    """Whether what the view says of its store is about columns that it has."""
    names = [output.name for output in resolved.outputs]
    for setting, named in (("mapping", view.mapping), ("index_by", view.index_by)):
        if unknown := [name for name in named if name not in names]:
            raise ViewError(
                f"view {resolved.name}: its {setting} names {', '.join(unknown)}",
                f"the view's columns are {', '.join(names)}",
            )
