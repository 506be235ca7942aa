"""Views that are maintained by their rewritten queries are equal to views that are made anew.

On PostgreSQL alone: the queries are written for it, mirrors are tables, and the declared SQL runs
on the same rows. A seed is a set of tables, a view over them and a history of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import orjson
import psycopg
import pytest

from tests import declared
from views.definition import parse_declaration
from views.dialects import POSTGRES
from views.maintained import MaintainedView, resolve_maintained
from views.maintenance import CHANGED, KeyQuery, key_queries, recomputation, whole
from views.narrowing import Narrowing
from views.selecting import KEYS
from views.tables import TableVersion

Connection = psycopg.Connection[tuple[Any, ...]]
Queries = Callable[[MaintainedView], tuple[KeyQuery, ...]]
_SEEDS = 120
_BATCHES = 6
_BASE = {"int4": "int4", "int8": "int8", "text": "text", "date": "date", "bool": "bool"}


@pytest.fixture(scope="module")
def session(postgres: str) -> Iterator[Connection]:
    with psycopg.connect(postgres) as conn:
        yield conn


@pytest.fixture
def connection(session: Connection) -> Iterator[Connection]:
    """A session in which nothing is kept."""
    yield session
    session.rollback()


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
        self.rows = {name: declared.rows(random, table) for name, table in tables.items()}
        self._run("drop schema if exists kept cascade", "create schema kept")
        self._run("set local search_path to kept")
        for name, table in tables.items():
            columns = ", ".join(f"{c.name} {_sql_type(str(c.type))}" for c in table.columns)
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
            declared.change(random, self.tables[name], self.rows[name])
        self.keep(before, queries)

    def keep(self, before: Mapping[str, declared.Rows], queries: Queries) -> set[tuple[Any, ...]]:
        """Bring the view from the rows of before to those of now; the keys that were touched."""
        for name in self.tables:
            self._images(name, before[name], self.rows[name])
        self._run("drop table if exists keys")
        asked = [sql for query in queries(self.view) for sql in self._asked(query)]
        self._run(f"create table keys as {' union '.join(asked)}")
        again = recomputation(self.view)
        relations = self._narrowed("", again.narrowing, {KEYS: "keys"})
        on = " and ".join(f"v.{name} = keys.{name}" for name in self.view.key)
        self._run(f"delete from v using keys where {on}")
        self._run(f"insert into v {again.sql(relations, 'keys', POSTGRES)}")
        return set(self.conn.execute("select * from keys").fetchall())

    def _images(self, name: str, before: declared.Rows, after: declared.Rows) -> None:
        """Fill the mirrors and the changed rows' images; a row moved is there under both keys."""
        changed = {k for k in {*before, *after} if before.get(k) != after.get(k)}
        self._fill(f"old_{name}", list(before.values()))
        self._fill(name, list(after.values()))
        self._fill(f"gone_{name}", [before[k] for k in changed if k in before])
        self._fill(f"come_{name}", [after[k] for k in changed if k in after])

    def _fill(self, table: str, rows: list[declared.Row]) -> None:
        self._run(f"truncate {table}")
        with self.conn.cursor() as cursor, cursor.copy(f"copy {table} from stdin".encode()) as copy:
            for row in rows:
                copy.write_row(list(row.values()))

    def _asked(self, query: KeyQuery) -> Iterator[str]:
        name = query.table.removeprefix("public.")
        for state, images in (("old_", f"gone_{name}"), ("", f"come_{name}")):
            if query.beside:
                images = f"(select * from gone_{name} union select * from come_{name})"
            relations = self._narrowed(state, query.narrowing, {CHANGED: images})
            yield query.sql(relations, images, POSTGRES)

    def _narrowed(
        self, state: str, steps: tuple[Narrowing, ...], at_hand: dict[str, str]
    ) -> dict[str, str]:
        """The mirrors of a state, narrowed step by step."""
        found = {a: f"{state}{table.table}" for a, table in self.view.tables.items()} | at_hand
        for step in steps:
            same = " and ".join(f"m.{one} = b.{other}" for one, other in step.pairs)
            inner = f"select from {found[step.by]} as b where {same}"
            found[step.alias] = f"(select m.* from {found[step.alias]} as m where exists ({inner}))"
        return found

    def held(self) -> list[str]:
        return _sorted(self.conn.execute("select * from v").fetchall())

    def expected(self) -> list[str]:
        """What the view's SQL gives on the source, arrays ordered."""
        sql = self.view.reading(lambda _, name: f"select * from {name}")
        return _sorted(self.conn.execute(sql.encode()).fetchall())

    def declared(self) -> list[str] | None:
        """What the SQL gives as it was declared, where PostgreSQL knows all of its words."""
        sql = self.view.definition.sql
        if "collect_list" in sql:
            return None
        return _sorted(map(_loose, self.conn.execute(sql.encode()).fetchall()))

    def loose(self) -> list[str]:
        return _sorted(map(_loose, self.conn.execute("select * from v").fetchall()))


_PARTS = ("old", "gone", "come")


def _sql_type(name: str) -> str:
    return _BASE.get(name, name)


def _sorted(rows: Any) -> list[str]:
    return sorted(repr(row) for row in rows)


def _loose(row: tuple[Any, ...]) -> list[Any]:
    """Arrays without their order, and what is in objects as text."""
    return [sorted(map(_texts, v), key=repr) if isinstance(v, list) else _parts(v) for v in row]


def _parts(value: Any) -> Any:
    return sorted(value.split(", ")) if isinstance(value, str) else value


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _texts(part) for name, part in sorted(value.items())}
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):  # of a numeric, in JSON
        return orjson.dumps(value).decode().rstrip("0").rstrip(".")
    if isinstance(value, str) and value.replace(".", "").lstrip("-").isdigit() and "." in value:
        return value.rstrip("0").rstrip(".")
    return None if value is None else str(value)


def _history(conn: Connection, seed: int, queries: Queries = key_queries) -> None:
    random = Random(seed)
    tables = declared.tables(random)
    view = declared.view(random, tables)
    _keep(Kept(conn, view, tables, random), random, f"seed {seed}", queries)


def _keep(kept: Kept, random: Random, said: str, queries: Queries, batches: int = _BATCHES) -> None:
    for number in range(batches):
        kept.batch(random, queries)
        where = f"{said}, batch {number}:\n{kept.view.definition.sql}\nkey {kept.view.key}"
        assert kept.held() == kept.expected(), where
        as_declared = kept.declared()
        assert as_declared is None or kept.loose() == as_declared, where


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_a_maintained_view_is_the_view_made_anew(connection: Connection, seed: int) -> None:
    _history(connection, seed)


def _declared(sql: str, *key: str) -> tuple[MaintainedView, dict[str, TableVersion]]:
    random = Random(0)
    tables = {}
    while {table.key for table in tables.values()} != {("id",), ("id", "no")}:
        tables = declared.tables(random)
    one, two = (next(t for t in tables.values() if t.key == key) for key in (("id",), ("id", "no")))
    tables = {"one": replace(one, table="one"), "two": replace(two, table="two")}
    definition = parse_declaration("v", "s", key, sql)
    return resolve_maintained(definition, {t.name: t for t in tables.values()}), tables


def _unconnected(view: MaintainedView, query: KeyQuery) -> KeyQuery:
    """The query with all joins, the occurrence's own one inner."""
    joins = tuple(
        replace(join, left=join.left and join.alias != query.occurrence) for join in view.body.joins
    )
    return replace(query, beside=False, joins=joins, keys=view.keys, narrowing=())


def _keeping_where(view: MaintainedView) -> tuple[KeyQuery, ...]:
    """The tempting shortcut: the key query with the view's WHERE."""
    plain = (_unconnected(view, query) for query in key_queries(view))
    return tuple(replace(query, where=view.body.where) for query in plain)


def _never_beside(view: MaintainedView) -> tuple[KeyQuery, ...]:
    """The key query without the rows that had no match."""
    return tuple(_unconnected(view, query) for query in key_queries(view))


_WRONG = [
    (
        _keeping_where,
        ("id", "no"),
        "select o.id, o.no, o.a from two o left join one c on c.id = o.a where c.id is null",
    ),
    (
        _never_beside,
        ("id",),
        "select coalesce(c.t, 'none') as id, count(*) as n from two o left join one c "
        "on c.id = o.a group by 1",
    ),
]


@pytest.mark.parametrize(("wrong", "key", "sql"), _WRONG, ids=["keeping WHERE", "never beside"])
def test_a_wrong_rule_is_found(
    connection: Connection, wrong: Queries, key: tuple[str, ...], sql: str
) -> None:
    view, tables = _declared(sql, *key)
    kept = Kept(connection, view, tables, Random(1))
    _keep(kept, Random(1), "the rule", key_queries, 20)
    kept = Kept(connection, view, tables, Random(1))
    with pytest.raises(AssertionError, match="the wrong rule"):
        _keep(kept, Random(1), "the wrong rule", wrong, 20)


def test_only_the_keys_of_what_changed_are_made_anew(connection: Connection) -> None:
    sql = "select o.id, o.no, c.t from two o join one c on c.id = o.a"
    view, tables = _declared(sql, "id", "no")
    random = Random(3)
    kept = Kept(connection, view, tables, random)
    for _ in range(5):
        kept.batch(random, key_queries)
    before = {name: dict(rows) for name, rows in kept.rows.items()}
    chosen = min(key for key in kept.rows["one"] if _rows_of(kept, key))
    kept.rows["one"][chosen] = {**kept.rows["one"][chosen], "t": "changed"}
    touched = kept.keep(before, key_queries)
    assert touched == _rows_of(kept, chosen)
    assert len(touched) < len(kept.rows["two"])
    assert kept.held() == kept.expected()


def _rows_of(kept: Kept, key: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    return {of for of, row in kept.rows["two"].items() if (row["a"],) == key}
