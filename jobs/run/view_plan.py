"""The plan of a view over the mirrors of a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from cdc.config import View
from cdc.errors import ViewError
from jobs.state.connection import Connection
from jobs.state.kept_view import quoted
from jobs.state.mirror_table import MIRROR_SCHEMA, one_identifier
from views.maintain.mirror import MirrorTable
from views.maintain.plan import ViewPlan, plan_view
from views.table_references import tables_read


class Mirrors(Protocol):
    """Whoever mirrors tables."""

    def mirrored(self, conn: Connection, labels: tuple[str, ...]) -> Mapping[str, MirrorTable]:
        """These tables, mirrored from now on; fills what is missing."""


def planned(mirrors: Mirrors, conn: Connection, name: str, view: View) -> ViewPlan:
    """The plan of a view over mirrors that there are. Raises ``ViewError`` for what cannot be."""
    labels = tuple(table.name for table in tables_read(name, view.sql))
    if not labels:
        raise ViewError(f"views.{name}.sql reads no table", "select from captured tables")
    return plan_view(name, view.sql, view.key, mirrors.mirrored(conn, labels))


def shows_more(sql: str, before: ViewPlan, after: ViewPlan) -> bool:
    """Whether a view over tables that have more columns only shows these beside what it was: it
    does not read rows as a whole, or join by columns that have one name."""
    whole_rows = ".*" in after.whole_template.text
    return not whole_rows and "NATURAL" not in sql.upper() and {*before.columns} < {*after.columns}


def relation_of(label: str) -> str:
    """The mirror of ``schema.table``, as SQL."""
    schema, _, table = label.partition(".")
    return f"{MIRROR_SCHEMA}.{quoted(one_identifier(schema, table))}"
