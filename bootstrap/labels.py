"""The labels of enums, asked of the source when a view is declared (``views.labels``)."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.config import Source
from cdc.source.catalog import enum_labels
from cdc.source.postgres import connect
from views.labels import labelled
from views.tables import TableVersion


def labels_asked(source: Source, tables: Mapping[str, TableVersion]) -> Mapping[str, TableVersion]:
    """The tables with the labels of their enums; without enums the source is not asked."""
    if not any(_has_enums(table) for table in tables.values()):
        return tables
    with connect(source.dsn, application_name="headwater view") as conn:
        return {
            name: labelled(table, enum_labels(conn, table.oid)) if _has_enums(table) else table
            for name, table in tables.items()
        }


def _has_enums(table: TableVersion) -> bool:
    kinds = (column.type for column in table.columns)
    return bool(table.oid) and any("enum" in (kind.name, kind.element) for kind in kinds)
