"""What is done to keep a view, in words and as SQL, for people. Pure."""

from __future__ import annotations

from typing import NamedTuple

from views.spark.dialects import POSTGRES
from views.spark.plan import key_queries, recomputation
from views.spark.view import MaintainedView, View


class TableRead(NamedTuple):
    """A table: its key, and the columns of it that the view needs."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]


class Step(NamedTuple):
    """How a change of ``table``, which the SQL calls ``alias``, finds the view's keys."""

    alias: str
    table: str
    words: str
    sql: str


class Plan(NamedTuple):
    """``steps`` and ``rows`` (how touched keys are made anew) are empty for a view of one row each:
    ``kept`` then says all."""

    tables: tuple[TableRead, ...]
    kept: str
    steps: tuple[Step, ...] = ()
    rows: str = ""
    rows_sql: str = ""


def plan(view: View) -> Plan:
    """Of a view that was resolved against its tables."""
    return _mirrored(view) if isinstance(view, MaintainedView) else _folded(view)


def _folded(view: View) -> Plan:
    assert not isinstance(view, MaintainedView)
    table = view.table
    passed = {output.source for output in view.outputs if output.source is not None}
    needed = tuple(c.name for c in table.columns if c.name in passed | view.computed_from)
    kept = "the last change of each row, through the view's SQL"
    if view.where is not None:
        kept += "; a row that leaves WHERE is deleted"
    return Plan((TableRead(table.name, table.key, needed),), kept)


def _mirrored(view: MaintainedView) -> Plan:
    keys = {table.name: table.key for table in view.tables.values()}
    tables = tuple(TableRead(name, keys[name], held) for name, held in view.mirrored().items())
    steps = []
    for query in key_queries(view):
        changed = f"changed_{query.occurrence}"
        relations = {alias: view.tables[alias].name for alias in query.reads}
        said = f"looks up {', '.join(query.reads)}" if query.reads else "it names the keys itself"
        sql = query.sql(relations, changed, POSTGRES)
        steps.append(Step(query.occurrence, query.table, said, sql))
    names = {alias: table.name for alias, table in view.tables.items()}
    return Plan(
        tables,
        "mirrors of its tables; the keys that a change touches are made anew from them",
        tuple(steps),
        f"of {', '.join(view.tables)} by the key",
        recomputation(view, names, "touched_keys", POSTGRES),
    )
