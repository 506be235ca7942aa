"""Whether the publication fits the tables, and leaves out the columns that are to stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cdc.source.catalog import relation
from cdc.source.columns.excluded_columns import ColumnList, ColumnLists, column_lists
from cdc.source.columns.recorded_treatments import recorded, recorded_faults
from cdc.source.errors import translated
from cdc.source.publication import (
    Publication,
    addition,
    changes,
    denied_hint,
    list_changes,
    read_publication,
    unpublished,
)
from cdc.source.selection import Table
from cdc.source.types import load_types
from headwater.check.finding import Finding
from headwater.check.source import Source

CHECK: Final = "publication"

_OWNED = """
select pg_catalog.pg_has_role(c.relowner, 'USAGE') from pg_catalog.pg_class c where c.oid = %s::oid
"""
_MAY_PUBLISH = """
select coalesce(
    (select pg_catalog.pg_has_role(p.pubowner, 'USAGE')
     from pg_catalog.pg_publication p where p.pubname = %s),
    pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'))
"""


def publication(source: Source) -> Iterator[Finding]:
    """Whether the publication fits the tables, or init can make it fit."""
    name = source.config.source.publication_name
    current = read_publication(source.conn, name)
    if not source.tables:
        return
    lists = column_lists(source.conn, source.config.source, source.tables)
    labels = {table.oid: table.label for table in source.tables}
    was = recorded(source.conn, source.config.source) or ()
    for fault in recorded_faults(source.config.source, labels, was):
        yield Finding("error", "columns", fault)
    for label, treated in source.config.source.treated.items():
        said = ", ".join(f"{column} ({one})" for column, one in treated.items())
        yield Finding("ok", "columns", f"of {label} are treated: {said}")
    if current is not None:
        yield from _excluded_columns(name, current, lists, source.initialised)
    statements = changes(name, current, source.tables, {} if source.initialised else lists)
    if current is not None:
        types = load_types(source.conn)
        for table in source.tables:  # a key column that a column list leaves out
            if table.label not in source.wrong_keys:
                relation(source.conn, table.oid, types, name, source.config.source.keys)
    if not statements:
        yield Finding("ok", CHECK, f"{name} publishes these tables")
    elif source.initialised:
        yield from _unfit(source, name, current, statements, lists)
    elif not _may_change(source, name, source.tables):
        message = denied(source.conn.info.user, name, exists=current is not None)
        yield Finding("error", CHECK, message, denied_hint(statements), tuple(statements))
    elif current and source.config.source.publication:
        message = f"publication {name} was there, and does not fit source.tables"
        hint = (
            "add --take-publication to `headwater init`, which changes it for all its readers: "
            f"{'; '.join(statements)}; or set source.publication to another name"
        )
        yield Finding("warning", CHECK, message, hint, tuple(statements))
    else:
        yield Finding("ok", CHECK, f"init {'alters' if current else 'creates'} {name}")


def _excluded_columns(
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


def _unfit(
    source: Source,
    name: str,
    current: Publication | None,
    statements: Sequence[str],
    lists: Mapping[tuple[str, str], ColumnList],
) -> Iterator[Finding]:
    """What a publication that ``init`` has made lacks since, or has too much."""
    new = unpublished(current, source.tables)
    left_out = [table.label for table in new]
    source.new_tables = {*left_out}
    chosen = {(table.schema, table.name) for table in source.tables}
    surplus = sorted(".".join(table) for table in (current.tables if current else set()) - chosen)
    if left_out:
        message = f"source.tables chooses {', '.join(left_out)}, which {name} does not publish"
        sql: tuple[str, ...] = ()
        hint = f"run `headwater table add {' '.join(left_out)}`"
        if not _may_change(source, name, new):
            sql = (addition(name, new, lists),)
            hint = f"{denied_hint(sql)}; then {hint}"
        yield Finding("error", CHECK, message, hint, sql)
    if surplus:
        message = f"{name} publishes {', '.join(surplus)}, which source.tables does not choose"
        hint = f"run `headwater table remove {' '.join(surplus)}`"
        yield Finding("error", CHECK, message, hint)
    if not left_out and not surplus:
        message = f"publication {name} differs from what `headwater init` created"
        hint = f"restore it: {'; '.join(statements)}; some changes since then are not captured"
        yield Finding("error", CHECK, message, hint, tuple(statements))


def denied(role: str, name: str, *, exists: bool) -> str:
    """What a role may not do that would have to make the publication fit."""
    return f"role {role} may not {'change' if exists else 'create'} publication {name}"


def _may_change(source: Source, name: str, tables: Sequence[Table]) -> bool:
    """Whether the role may create the publication with these tables, or add them to it."""
    with translated("reading the privileges on the publication"):
        owned = all(
            source.conn.execute(_OWNED, (table.oid,)).fetchone() == (True,) for table in tables
        )
        row = source.conn.execute(_MAY_PUBLISH, (name,)).fetchone()
    return owned and row == (True,)
