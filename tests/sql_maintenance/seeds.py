"""A random view over random tables, kept through random batches, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import psycopg

from cdc.errors import ViewError
from tests.sql_maintenance import grammar
from tests.sql_maintenance.changes import batch, first_rows
from tests.sql_maintenance.group_grammar import SCHEMA as GROUP_SCHEMA
from tests.sql_maintenance.group_grammar import GroupGrammar
from tests.sql_maintenance.kept import KeptView
from tests.sql_maintenance.mirrors import Connection, fill, tables_of
from tests.sql_maintenance.relations import SCHEMA
from views.maintain import plan_view

BATCHES = 8
KINDS: Final[dict[str, Callable[[Random], grammar.View]]] = {
    "any": grammar.view,
    "groups": lambda random: GroupGrammar(random).view(),
    "twice": grammar.view_twice,
}
"""Any view; one whose groups follow the change; one that joins a relation under two aliases."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a seed: ``refused`` has the reason, if the view was. ``assumed`` is true if
    the run ended where the data broke what the key's proof takes for granted."""

    sql: str
    key: tuple[str, ...]
    mode: str
    refused: str = ""
    assumed: bool = False
    keys: int = 0
    whole: int = 0
    groups: str = ""


def run_seed(connection: Connection, seed: int, kind: str = "any") -> Outcome:
    """Raises AssertionError where the kept view is not the view. Leaves nothing behind.

    ``kind``: what is drawn from, one of ``KINDS``.
    """
    random, groups = Random(seed), kind == "groups"
    sql, key = KINDS[kind](random)
    connection.execute("begin")
    try:
        connection.execute(SCHEMA + GROUP_SCHEMA if groups else SCHEMA)
        for statement in first_rows(random, groups):
            connection.execute(statement)
        connection.execute(f"explain {sql}")
        return _kept(connection, random, sql, key)
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.GroupingError) as error:
        return Outcome(sql, key, "not PostgreSQL", str(error))
    except ViewError as error:
        return Outcome(sql, key, "refused", str(error))
    finally:
        connection.execute("rollback")


def _kept(connection: Connection, random: Random, sql: str, key: tuple[str, ...]) -> Outcome:
    tables = tables_of(connection)
    fill(connection, tables.values())
    plan = plan_view("v", sql, key, tables)
    view = KeptView(connection, plan, sql)
    names = sorted(tables[name].name for name in plan.reads)
    keys = whole = 0
    try:
        view.build()
        other = Random(sql)
        first, again = other.randrange(3), other.randrange(BATCHES)
        for number in range(BATCHES):
            if number in (first, first + again):  # batches add to the groups before they are filled
                view.fill()
            for statement in batch(random, names):
                connection.execute(statement)
            done = view.keep(tables)
            keys, whole = keys + (not done.whole), whole + done.whole
            view.check()
    except AssertionError as error:
        if "share a key" in str(error) and plan.assumes:
            return Outcome(sql, key, plan.mode, assumed=True)
        raise
    return Outcome(sql, key, plan.mode, keys=keys, whole=whole, groups=_groups(view))


def _groups(view: KeptView) -> str:
    if view.groups is None:
        return f"of rows: {view.plan.groups_reason}" if view.plan.groups_reason else ""
    return "by images" if view.groups.sums.plan.table else "by joins"
