"""A view that is kept by its rewritten queries, beside the view made anew, on PostgreSQL alone.

The queries are written for PostgreSQL and mirrors are tables, so that only the rule is tried. A
seed is a set of tables, a view over them and a history of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import psycopg

from tests.spark_maintenance import declared, schemas
from tests.spark_maintenance.source import as_text, compared
from views.spark.dialects import POSTGRES
from views.spark.plan import KeyQuery, key_queries, recomputation, whole
from views.spark.view import MaintainedView
from views.table_versions import TableVersion

Connection = psycopg.Connection[tuple[Any, ...]]
Queries = Callable[[MaintainedView], tuple[KeyQuery, ...]]
_BATCHES = 6


class Kept:
    """Tables, their mirrors before and after a batch, and a view that is kept by queries."""

    def __init__(
        self,
        conn: Connection,
        view: MaintainedView,
        tables: Mapping[str, TableVersion],
        random: Random,
    ) -> None:
        self.conn, self.view, self.tables = conn, view, tables
        self.rows = {name: schemas.rows(random, table) for name, table in tables.items()}
        self._run("drop schema if exists kept cascade", "create schema kept")
        self._run("set local search_path to kept")
        for name, table in tables.items():
            columns = ", ".join(f"{c.name} {c.type}" for c in table.columns)
            self._run(f"create table {name} ({columns}, primary key ({', '.join(table.key)}))")
            self._run(*(f"create table {part}_{name} ({columns})" for part in _PARTS))
            self._fill(name, list(self.rows[name].values()))
        relations = {alias: table.table for alias, table in view.tables.items()}
        self._run(f"create table v as {whole(view, relations, POSTGRES)}")

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self.conn.execute(statement.encode())

    def batch(self, random: Random, queries: Queries) -> None:
        """Change rows at random and keep the view."""
        before = {name: dict(rows) for name, rows in self.rows.items()}
        for _ in range(random.randint(1, 10)):
            name = random.choice(sorted(self.tables))
            schemas.change(random, self.tables[name], self.rows[name])
        self.keep(before, queries)

    def keep(self, before: Mapping[str, schemas.Rows], queries: Queries) -> set[tuple[Any, ...]]:
        """Bring the view from the rows of before to those of now; the keys that were touched."""
        for name in self.tables:
            self._images(name, before[name], self.rows[name])
        self._run("drop table if exists keys")
        asked = [sql for query in queries(self.view) for sql in self._asked(query)]
        self._run(f"create table keys as {' union '.join(asked)}")
        relations = self._mirrors("")
        on = " and ".join(f"v.{name} = keys.{name}" for name in self.view.key)
        self._run(f"delete from v using keys where {on}")
        self._run(f"insert into v {recomputation(self.view, relations, 'keys', POSTGRES)}")
        return set(self.conn.execute("select * from keys").fetchall())

    def _images(self, name: str, before: schemas.Rows, after: schemas.Rows) -> None:
        """Fill the mirrors and the changed rows' images; a row moved is there under both keys."""
        changed = {k for k in {*before, *after} if before.get(k) != after.get(k)}
        self._fill(f"old_{name}", list(before.values()))
        self._fill(name, list(after.values()))
        self._fill(f"gone_{name}", [before[k] for k in changed if k in before])
        self._fill(f"come_{name}", [after[k] for k in changed if k in after])

    def _fill(self, table: str, rows: list[schemas.Row]) -> None:
        self._run(f"truncate {table}")
        with self.conn.cursor() as cursor, cursor.copy(f"copy {table} from stdin".encode()) as copy:
            for row in rows:
                copy.write_row(list(row.values()))

    def _asked(self, query: KeyQuery) -> Iterator[str]:
        name = query.table.removeprefix("public.")
        for state, images in (("old_", f"gone_{name}"), ("", f"come_{name}")):
            if query.beside:
                images = f"(select * from gone_{name} union select * from come_{name})"
            yield query.sql(self._mirrors(state), images, POSTGRES)

    def _mirrors(self, state: str) -> dict[str, str]:
        """The mirrors of a state."""
        return {alias: f"{state}{table.table}" for alias, table in self.view.tables.items()}

    def differences(self) -> list[str]:
        """A line for each kind of difference from what the view's SQL gives on the source."""
        as_text(self.conn)
        rows = self.conn.execute("select * from v").fetchall()
        names = [output.name for output in self.view.outputs]
        return compared(self.conn, self.view, [dict(zip(names, r, strict=True)) for r in rows])

    def rows_at_the_end(self) -> int:
        """How many the view has."""
        (count,) = self.conn.execute("select count(*) from v").fetchone() or (0,)
        return int(count)


_PARTS = ("old", "gone", "come")


def history(conn: Connection, seed: int, queries: Queries = key_queries) -> Kept:
    """Run a seed in a transaction of ``conn``. Raises ``AssertionError`` naming it."""
    random = Random(seed)
    tables = schemas.tables(random)
    view = declared.view(random, tables)
    kept = Kept(conn, view, tables, random)
    keep(kept, random, f"seed {seed}", queries)
    return kept


def keep(kept: Kept, random: Random, said: str, queries: Queries, batches: int = _BATCHES) -> None:
    """Batch after batch, compare the kept view with what the source gives."""
    for number in range(batches):
        kept.batch(random, queries)
        where = f"{said}, batch {number}:\n{kept.view.definition.sql}\nkey {kept.view.key}"
        found = "\n".join(kept.differences())
        assert not found, f"{where}\n{found}"
