"""Checks of the declared views against the tables as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cdc.config import View
from cdc.errors import HeadwaterError, ViewError
from cdc.preflight.finding import Finding
from cdc.preflight.source import Source
from cdc.source.catalog import relation
from cdc.source.types import load_types

if TYPE_CHECKING:
    from views import maintained
    from views.definition import ViewDefinition
    from views.tables import TableVersion


def views(source: Source) -> Iterator[Finding]:
    """One finding for each view of ``[views]``: its SQL, its tables, its columns and its key."""
    from views.definition import parse_view
    from views.maintained import resolve_view

    config = source.config
    if not config.views or not source.tables:  # what is wrong with the tables has been said
        return
    tables = _Tables(source)
    for name, view in config.views.items():
        check = f"view {name}"
        try:
            definition = parse_view(name, view.store, view.key, view.sql, view.history)
            resolved = resolve_view(definition, tables.of(definition))
            _check_columns(resolved, view)
        except HeadwaterError as error:
            yield Finding("error", check, error.message, error.hint)
        else:
            yield Finding("ok", check, f"in {view.store}: {resolved.describe()}")


class _Tables:
    """The captured tables as a view has them, each looked up once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._oids = {f"{table.schema}.{table.name}": table.oid for table in source.tables}
        self._types = load_types(source.conn)
        self._found: dict[str, TableVersion] = {}

    def of(self, definition: ViewDefinition) -> Mapping[str, TableVersion]:
        """What a view reads. Raises ``ViewError`` for a table that is not captured."""
        return {name: self._version(definition.name, name) for name in definition.table_names}

    def _version(self, view: str, table: str) -> TableVersion:
        from views.tables import parse_version

        if table not in self._oids:
            raise ViewError(
                f"view {view}: table {table} is not captured",
                "add it to source.tables, or correct the view's SQL",
            )
        if table not in self._found:
            source = self._source.config.source
            shape = relation(
                self._source.conn,
                self._oids[table],
                self._types,
                source.publication_name,
                source.keys,
            )
            self._found[table] = parse_version(shape.describe())
        return self._found[table]


def _check_columns(resolved: maintained.View, view: View) -> None:
    """Whether what the view says of its store is about columns that it has."""
    names = [output.name for output in resolved.outputs]
    for setting, named in (("mapping", view.mapping), ("index_by", view.index_by)):
        if unknown := [name for name in named if name not in names]:
            raise ViewError(
                f"view {resolved.name}: its {setting} names {', '.join(unknown)}",
                f"the view's columns are {', '.join(names)}",
            )
    if fault := view.layout_fault({output.name: output.type.spark for output in resolved.outputs}):
        raise ViewError(
            f"view {resolved.name}: {fault}",
            "name columns of the view that have an order; what is computed, the SQL names with AS",
        )
