"""Which forms of events, and which topics, views can be kept by. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from cdc.errors import ViewError
from cdc.events.form import Form
from views.parse.table_references import TableName, tables_read


def refuse_unread(form: Form) -> None:
    """Raise ``ViewError`` where changes are not published: a view would go on without them, and
    nothing would tell."""
    if not form.has_events:
        raise ViewError(
            f'views need whole events, and [events] has content = "{form.content}"',
            "keep the views by a second configuration, with another source.name and slot, or "
            "remove content from [events]",
        )
    if not form.skipped:
        return
    codes = ",".join(sorted(form.skipped))
    of_preset = ' (preset = "debezium" skips t, TRUNCATE)' if form.skipped == {"t"} else ""
    raise ViewError(
        f"views need every change, and [events] skips operations: {codes}{of_preset}",
        'set skipped.operations = "none" in [events], or remove [views]',
    )


def refuse_shared(own_topic: Callable[[str, str], str], views: Iterable[tuple[str, str]]) -> None:
    """Raise what ``own_topic`` raises for a table whose topic others are in, of those that the SQL
    of ``views`` reads, by name. What is no SQL is told by who plans it."""
    for name, sql in views:
        read: tuple[TableName, ...] = ()
        with suppress(ViewError):
            read = tables_read(name, sql)
        for table in read:
            own_topic(table.schema, table.table)
