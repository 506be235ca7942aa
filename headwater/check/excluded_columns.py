"""Columns of ``source.columns``: whether the publication leaves them out, and no other ones."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.source.columns.excluded_columns import ColumnLists
from cdc.source.publication import Publication, list_changes
from headwater.check.finding import Finding


def excluded_columns(
    name: str, current: Publication, lists: ColumnLists, initialised: bool
) -> Iterator[Finding]:
    """What a publication has too much, and too little, of tables with columns that must not leave
    the source; ``initialised``: capture uses it, and `init` does not change it any more."""
    statements = list_changes(name, current, lists)
    if initialised and statements:
        here = {at: of for at, of in lists.items() if at in current.tables}
        names = ", ".join(f"{'.'.join(at)}.{one}" for at, of in here.items() for one in of.exposed)
        message = f"{name} publishes {names}, which source.columns excludes"
        hint = f"run in one transaction: {'; '.join(statements)}; then start capture again"
        yield Finding("error", "columns", message, hint, tuple(statements))
    elif lists:
        names = ", ".join(f"{'.'.join(at)}: {', '.join(of.columns)}" for at, of in lists.items())
        yield Finding("ok", "columns", f"of tables with excluded columns these leave: {names}")
    added = {at: of for at, of in lists.items() if of.unlisted and at in current.tables}
    whole = {
        at: of._replace(columns=(*of.columns, *of.unlisted), exposed=of.unlisted)
        for at, of in added.items()
    }
    if added:
        names = ", ".join(
            f"{'.'.join(at)}.{one}" for at, of in added.items() for one in of.unlisted
        )
        message = f"{name} does not publish {names}: its list of columns is older"
        sql = list_changes(name, current, whole)
        hint = f"publish them, in one transaction: {'; '.join(sql)}; or exclude them, too"
        yield Finding("warning", "columns", message, hint, tuple(sql))
