"""What the tables of a view were when its mirrors were last opened: ``tables.json`` beside them.

A mirror holds rows of before. What DDL may change under them is what leaves them true: columns that
the view does not read, types that hold every value as it was. All else stops the view, and the
message shows what the table was, also to a process that never saw that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jobs.generations.view_state import read_document, write_document
from jobs.spark.event_values import keeps_values
from jobs.without_mirrors.incompatible_schema import no_longer, other_values
from jobs.without_mirrors.schemas_topic import Versions
from views.spark.view import MaintainedView
from views.table_versions import TableVersion


def remember(directory: Path, view: MaintainedView) -> None:
    """Keep which version of each table the mirrors fit now."""
    found = {table.name: table.schema_id for table in view.tables.values()}
    if read_document(directory / _FILE) != found:
        write_document(directory / _FILE, dict(found))


def remembered(directory: Path, versions: Mapping[str, Versions]) -> dict[str, TableVersion]:
    """The tables as they were, as far as that is known."""
    held = read_document(directory / _FILE) or {}
    return {
        name: versions[name][id_]
        for name, id_ in held.items()
        if name in versions and id_ in versions[name]
    }


def check_kept(view: MaintainedView, were: Mapping[str, TableVersion]) -> None:
    """Raises ``ViewError`` where a mirror's rows cannot be what the table's are now."""
    mirrored = view.mirrored()
    for table in {table.name: table for table in view.tables.values()}.values():
        was = were.get(table.name, table)
        if set(was.key) != set(table.key):
            reason = f"view {view.name}: its rows of {table.name} are told apart otherwise now"
            raise no_longer(view.name, reason, {table.name: was}, {table.name: table})
        for name in mirrored[table.name]:
            one, other = was.column(name), table.column(name)
            if one is not None and other is not None and not keeps_values(one, other):
                raise other_values(view.name, was, table, name)


_FILE = "tables.json"
