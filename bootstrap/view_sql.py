"""The SQL of a view as it is kept, over the tables of its source, for ``headwater verify``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bootstrap.source_tables import version_now
from cdc.config import Source
from cdc.errors import HeadwaterError, ViewError
from cdc.source.postgres import Connection
from cdc.source.table_lookup import table_of
from cdc.source.types import load_types
from jobs.state.views.view_names import TableNames, ViewNames, names_of
from views.maintain import plan_view
from views.maintain.mirror import mirror_of
from views.parse.table_references import RelationOf, tables_read
from views.table_versions import TableVersion


class OverSource(NamedTuple):
    """``names`` are what a view calls the source's columns now; ``whole`` is its SQL over given
    relations, None where it is what is written; ``tables`` are those that it reads, as they are
    now. ``row_key``: the columns of its table that its key is now, if each row is made of one; else
    ``no_row_key`` says why there are none."""

    names: ViewNames
    whole: Callable[[Callable[[str], str]], str] | None = None
    tables: tuple[TableVersion, ...] = ()
    row_key: tuple[str, ...] = ()
    no_row_key: str = ""


@dataclass(frozen=True, slots=True)
class ViewSql:
    """Of a view as it was built; ``conn`` is one with the source."""

    conn: Connection
    settings: Source
    name: str
    sql: str
    key: tuple[str, ...]

    def over_source(
        self, known: Mapping[str, TableNames], relation: RelationOf | None = None
    ) -> OverSource:
        """What ``verification.select_view`` needs of it; ``known`` is what it calls columns,
        ``relation`` gives what is read in place of a table."""
        types = load_types(self.conn)
        tables = {
            one.name: version_now(
                self.conn,
                table_of(self.conn, one.schema, one.table)[0],
                types,
                self.settings,
                computed=True,
            )
            for one in tables_read(self.name, self.sql)
        }
        names = names_of(known, tables)
        seen = {label: names.seen(mirror_of(one)) for label, one in tables.items()}
        try:
            plan = plan_view(self.name, self.sql, self.key, seen)
        except HeadwaterError:  # what is wrong with it is told when the source runs it
            return OverSource(names)
        if plan.clock:
            raise ViewError(
                f"view {self.name} reads the clock: each row was computed at its own time, so "
                "the rows cannot be compared at one time",
                "remove now() from the view and filter by time in the query that reads the view",
            )
        # What GROUP BY settles by a table's key is not settled by that of a SELECT.
        read = tables_read(self.name, self.sql) if relation else ()
        narrowed = any(relation(*one).startswith("(") for one in read if relation)
        whole = plan.whole if plan.completed or names.called or narrowed else None
        called = {} if len(tables) != 1 else names.called.get(next(iter(tables)), {})
        row_key = () if plan.single.texts else plan.single.key
        row_key = tuple(called.get(one, one) for one in row_key)
        no_row_key = (
            "its key is a text made of a column" if plan.single.texts else plan.single.reason
        )
        return OverSource(names, whole, tuple(tables.values()), row_key, no_row_key)
