"""The plan of a view over the mirrors of a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cdc.config import View
from cdc.errors import ViewError
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.state.mirrors.mirror_record import read_mirrors
from jobs.state.mirrors.table import MIRROR_SCHEMA, one_identifier
from jobs.state.server.connection import Connection
from jobs.state.views.view_generation import quoted
from jobs.state.views.view_names import ViewNames, present, read_names, remember_names, view_names
from jobs.state.views.view_record import ViewRecord, view_records
from views.histories import history_key
from views.maintain.mirror import MirrorTable
from views.maintain.plan import ViewPlan, plan_view
from views.parse.table_references import tables_read


class Mirrors(Protocol):
    """Whoever mirrors tables."""

    def mirrored(self, conn: Connection, labels: tuple[str, ...]) -> Mapping[str, MirrorTable]:
        """These tables, mirrored from now on; fills what is missing."""


@dataclass(frozen=True, slots=True)
class AsTheyAre:
    """``Mirrors`` that fills nothing."""

    tables: MirroredTables

    def mirrored(self, conn: Connection, labels: tuple[str, ...]) -> Mapping[str, MirrorTable]:
        return self.tables.described(conn, labels)

    def follow_source(self, conn: Connection, labels: tuple[str, ...]) -> None:
        """They stay what they are."""


class SourceMirrors(Mirrors, Protocol):
    """Whoever mirrors tables and can ask their source."""

    def follow_source(self, conn: Connection, labels: tuple[str, ...]) -> None:
        """Give mirrors the columns that these tables have in the source at present."""


def planned(mirrors: SourceMirrors, conn: Connection, name: str, view: View) -> ViewPlan:
    """The plan of a view over mirrors as their tables are at present. Raises ``ViewError`` for what
    cannot be."""
    labels = _labels(name, view.sql)
    mirrors.follow_source(conn, labels)
    tables = mirrors.mirrored(conn, labels)
    try:
        plan = plan_view(name, view.sql, view.key, tables)
    except ViewError as error:
        if not (renamed := _renamed(conn, name, labels)):
            raise
        raise ViewError(error.message, f"{renamed}. {error.hint or 'Adapt its SQL.'}") from error
    if view.history:
        held = read_mirrors(conn)
        history_key(view.history, plan, {one: held[one].table.key for one in labels}, ViewNames())
    return plan


def planned_again(
    mirrors: Mirrors, conn: Connection, record: ViewRecord
) -> tuple[ViewPlan, ViewNames]:
    """The plan of a generation as it was built, over mirrors as they are now, and what it calls
    their columns, which is remembered. Raises ``ViewError`` for one that lacks a column now."""
    labels = _labels(record.name, record.sql)
    seen = mirrors.mirrored(conn, labels)
    held = read_mirrors(conn)
    known = read_names(conn, record.id)
    names = view_names(
        known, {label: present(held[label].table) for label in labels if label in held}
    )
    tables = {label: names.seen(table) for label, table in seen.items()}
    try:
        plan = plan_view(record.name, record.sql, record.key, tables)
    except ViewError as error:
        if not names.gone:
            raise
        raise ViewError(
            f"{error.message}; {'; '.join(names.gone.values())}",
            way_out(record.name, record.sql, record.key, seen),
        ) from error
    if names.tables != known:
        remember_names(conn, record.id, names.tables)
    return plan, names


def way_out(name: str, sql: str, key: Sequence[str], tables: Mapping[str, MirrorTable]) -> str:
    """What to do about a view that lacks a column it was built with. One that was dropped and added
    again is another one, with other values: the SQL may fit the tables as they are now."""
    rebuild = f"`headwater view rebuild {name}`"
    try:
        plan_view(name, sql, key, tables)
    except ViewError:
        return f"adapt the SQL of the view, then {rebuild}"
    return f"run {rebuild}: its SQL fits the tables as they are now"


def shows_more(sql: str, before: ViewPlan, after: ViewPlan) -> bool:
    """Whether a view over tables that have more columns only shows these beside what it was: it
    does not read rows as a whole, or join by columns that have one name."""
    whole_rows = ".*" in after.whole_template.text
    return not whole_rows and "NATURAL" not in sql.upper() and {*before.columns} < {*after.columns}


def relation_of(label: str) -> str:
    """The mirror of ``schema.table``, as SQL."""
    schema, _, table = label.partition(".")
    return f"{MIRROR_SCHEMA}.{quoted(one_identifier(schema, table))}"


def _renamed(conn: Connection, name: str, labels: Sequence[str]) -> str:
    """What columns of these tables are called now that generations of the view know by another
    name, for messages."""
    held = read_mirrors(conn)
    tables = {label: present(held[label].table) for label in labels if label in held}
    found: dict[str, str] = {}
    for record in view_records(conn, name):
        names = view_names(read_names(conn, record.id), tables)
        for label in names.called:
            found |= names.renamed(label, list(names.called[label]))
    return ", ".join(f"{then!r} is called {now!r} now" for then, now in found.items())


def _labels(name: str, sql: str) -> tuple[str, ...]:
    labels = tuple(table.name for table in tables_read(name, sql))
    if not labels:
        raise ViewError(f"views.{name}.sql reads no table", "select from captured tables")
    return labels
