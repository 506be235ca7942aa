"""Columns of which events do not have the values exactly: no view may read them. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from cdc.errors import ViewError
from cdc.events.form import Form
from cdc.events.readers.columns import ColumnKind, loss
from views.spark.resolution import ResolvedView
from views.spark.view import View
from views.table_versions import TableColumn, TableVersion

LOST_HINT: Final = "choose another mode in [events], or leave the column out of the view"


def lost(form: Form | None, column: TableColumn) -> str:
    """Why events of a form do not have a column's values exactly; empty where they do."""
    if form is None:
        return ""
    kind = column.type
    described = ColumnKind(
        kind.name,
        typmod=column.typmod,
        element=kind.element,
        treatment=column.treatment,
        element_typmod=column.element_typmod,
    )
    return loss(form, described)


def refuse_lost_columns(form: Form | None, view: View) -> None:
    """Raise ``ViewError`` for a view that reads such a column, or whose mirrors would have it."""
    if isinstance(view, ResolvedView):
        shown = {output.source for output in view.outputs}
        _refuse(form, view.name, view.table, view.computed_from | shown | {*view.table.key})
        return
    for table in view.tables.values():
        _refuse(form, view.name, table, {column.name for column in table.columns})


def _refuse(
    form: Form | None, view: str, table: TableVersion, read: AbstractSet[str | None]
) -> None:
    for column in table.columns:
        if column.name in read and (reason := lost(form, column)):
            raise ViewError(
                f"views.{view}.sql reads {column.name} of {table.name}, whose values events do "
                f"not have exactly: {reason}",
                LOST_HINT,
            )
