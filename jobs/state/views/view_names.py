"""What the SQL of a generation calls the columns of its tables, whatever they are called by now.

A column is known by its ``attnum``, which it keeps under every name. A generation goes by the names
that its tables had when it began, and columns that came later have theirs of then. A column that
came later and has the name of another one is not read: what the SQL calls by that name is the older
one. The names are remembered in ``headwater.views``, as they cannot be told from anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from psycopg.types.json import Jsonb

from cdc.source.postgres import identifier
from jobs.state.mirrors import table as state_tables
from jobs.state.server.connection import Connection
from views.column_changes import column_changes
from views.maintain.mirror import MirrorTable
from views.table_versions import TableVersion

_FIELD: Final = "tables"


@dataclass(frozen=True, slots=True)
class TableNames:
    """Of one table: by the generation's name of a column its ``attnum``, and its type as it was
    last seen. What was dropped and made again (another ``oid``) has no column of it."""

    oid: int
    attnums: Mapping[str, int]
    types: Mapping[str, str] = field(default_factory=dict)


class Present(NamedTuple):
    """A table as it is now: ``attnum``, name and type of each column."""

    oid: int
    columns: Sequence[tuple[int | None, str, str]]

    @property
    def is_certain(self) -> bool:
        """Whether it is known which column is which."""
        return all(attnum is not None for attnum, _, _ in self.columns)


@dataclass(frozen=True, slots=True)
class ViewNames:
    """Of one generation: what it calls the columns of its tables, and what mirrors call them.

    ``called`` has, by ``schema.table``, the present name of each column that the generation knows;
    only tables of which some name is another one now, or a column of theirs is not known to it.
    """

    tables: Mapping[str, TableNames] = field(default_factory=dict)
    called: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)
    """Of tables that have no more what it knows of them: what they lost and got."""

    def seen(self, table: MirrorTable) -> MirrorTable:
        """A table with the generation's names."""
        if (called := self.called.get(table.table)) is None:
            return table
        own = {now: then for then, now in called.items()}
        columns = [replace(one, name=own[one.name]) for one in table.columns if one.name in own]
        key = tuple(self.known(table.table, name) for name in table.key)
        return replace(table, columns=tuple(columns), key=key)

    def known(self, table: str, column: str) -> str:
        """The generation's name of a column by its present one."""
        called = self.called.get(table, {})
        return next((then for then, now in called.items() if now == column), column)

    def renamed(self, table: str, columns: Sequence[str]) -> dict[str, str]:
        """What those of the columns are called now that have another name."""
        called = self.called.get(table, {})
        return {name: called[name] for name in columns if called.get(name, name) != name}

    def reading(self, table: str, relation: str) -> str:
        """A relation that has a mirror's columns, under the generation's names."""
        if (called := self.called.get(table)) is None:
            return relation
        listed = ", ".join(
            f"{identifier(now)} as {identifier(then)}" for then, now in called.items()
        )
        return f"(select {listed} from {relation} as called_now)"


def present(table: state_tables.MirrorTable) -> Present:
    """A mirror's columns."""
    return Present(table.oid, [(one.attnum, one.name, one.type.name) for one in table.columns])


def view_names(known: Mapping[str, TableNames], tables: Mapping[str, Present]) -> ViewNames:
    """The names of a generation that knows ``known``, over tables by ``schema.table`` as they are
    now."""
    names: dict[str, TableNames] = {}
    called: dict[str, dict[str, str]] = {}
    gone: dict[str, str] = {}
    for label, table in tables.items():
        if not table.is_certain:
            continue
        held = known.get(label)
        if held is None or held.oid != table.oid:
            held = TableNames(table.oid, {})
        names[label] = _with_new(held, table)
        sent = {at: name for at, name, _ in table.columns if at is not None}
        now = {name: sent[at] for name, at in names[label].attnums.items() if at in sent}
        if len(now) < len(sent) or any(then != one for then, one in now.items()):
            called[label] = now
        if now.keys() < names[label].attnums.keys():
            gone[label] = f"{label} {_changes(held, table)}"
    return ViewNames(names, called, gone)


def _changes(held: TableNames, table: Present) -> str:
    """A column that was renamed has the name of then in both."""
    then = {at: name for name, at in held.attnums.items()}
    was = {name: held.types.get(name, "") for name in held.attnums}
    now = {then.get(at or 0, name): kind for at, name, kind in table.columns}
    sent = {at for at, _, _ in table.columns}
    return column_changes(was, now, {name for name, at in held.attnums.items() if at not in sent})


def _with_new(held: TableNames, table: Present) -> TableNames:
    """With the columns that it does not know, under their names of now."""
    attnums, known = dict(held.attnums), set(held.attnums.values())
    types = {at: kind for at, _, kind in table.columns}
    for at, name, _ in table.columns:
        if at is not None and at not in known:
            attnums.setdefault(name, at)
    now = {name: types[at] for name, at in attnums.items() if at in types}
    return TableNames(held.oid, attnums, dict(held.types) | now)


def read_names(conn: Connection, view_id: int) -> dict[str, TableNames]:
    """What a generation was last known to call the columns of its tables, by ``schema.table``."""
    row = conn.execute(b"select plan from headwater.views where id = %s", (view_id,)).fetchone()
    held: Mapping[str, Any] = (row[0] if row else {}).get(_FIELD, {})
    return {
        label: TableNames(one["oid"], one["attnums"], one["types"]) for label, one in held.items()
    }


def remember_names(conn: Connection, view_id: int, names: Mapping[str, TableNames]) -> None:
    """Keep them: the generation's SQL and its place in the store are made of them."""
    document = {
        label: {"oid": one.oid, "attnums": one.attnums, "types": one.types}
        for label, one in names.items()
    }
    conn.execute(
        b"update headwater.views set plan = plan || %s where id = %s",
        (Jsonb({_FIELD: document}), view_id),
    )


def names_of(known: Mapping[str, TableNames], tables: Mapping[str, TableVersion]) -> ViewNames:
    """What a view calls the columns of tables as they are now."""
    now = {
        label: Present(one.oid, [(c.attnum, c.name, str(c.type)) for c in one.columns])
        for label, one in tables.items()
    }
    return view_names(known, now)
