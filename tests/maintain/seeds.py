"""A random view over random tables, kept through random batches, on a real PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import psycopg

from cdc.errors import ViewError
from tests.maintain.changes import batch, first_rows
from tests.maintain.grammar import SCHEMA, Grammar
from tests.maintain.kept import KeptView
from tests.maintain.mirrors import Connection, fill, tables_of
from views.maintain import plan_view

BATCHES = 8


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


def run_seed(connection: Connection, seed: int) -> Outcome:
    """Raises AssertionError where the kept view is not the view. Leaves nothing behind."""
    random = Random(seed)
    sql, key = Grammar(random).view()
    connection.execute("begin")
    try:
        connection.execute(SCHEMA)
        for statement in first_rows(random):
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
        for _ in range(BATCHES):
            for statement in batch(random, names):
                connection.execute(statement)
            done = view.keep(tables)
            keys, whole = keys + (not done.whole), whole + done.whole
            view.check()
    except AssertionError as error:
        if "share a key" in str(error) and plan.assumes:
            return Outcome(sql, key, plan.mode, assumed=True)
        raise
    return Outcome(sql, key, plan.mode, keys=keys, whole=whole)
