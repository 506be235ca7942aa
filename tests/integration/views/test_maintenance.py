"""Views that are maintained by their rewritten queries are equal to views that are made anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import psycopg
import pytest

from tests.spark_maintenance.kept import Connection, Kept, Queries, history, keep
from views.parse.definition import parse_view
from views.spark.plan import KeyQuery, key_queries
from views.spark.view import MaintainedView, resolve_maintained
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, TEXT

# More of them: python -m tests.spark_maintenance.
_SEEDS = [*range(15), *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(15, 60))]


@pytest.fixture(scope="module")
def session(postgres: str) -> Iterator[Connection]:
    with psycopg.connect(postgres) as conn:
        yield conn


@pytest.fixture
def connection(session: Connection) -> Iterator[Connection]:
    """A session in which nothing is kept."""
    yield session
    session.rollback()


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_maintained_view_is_the_view_made_anew(connection: Connection, seed: int) -> None:
    history(connection, seed)


def _declared(sql: str, *key: str) -> tuple[MaintainedView, dict[str, TableVersion]]:
    keys = [TableColumn(name, INT4, nullable=False) for name in ("id", "no")]
    others = (TableColumn("a", INT4), TableColumn("t", TEXT))
    one = TableVersion("1" * 16, "public", "one", (keys[0], *others), ("id",))
    two = TableVersion("2" * 16, "public", "two", (*keys, *others), ("id", "no"))
    tables = {"one": one, "two": two}
    definition = parse_view("v", "s", key, sql)
    return resolve_maintained(definition, {t.name: t for t in tables.values()}), tables


def _unconnected(view: MaintainedView, query: KeyQuery) -> KeyQuery:
    """The query with all joins, the occurrence's own one inner."""
    joins = tuple(
        replace(join, left=join.left and join.alias != query.occurrence) for join in view.body.joins
    )
    return replace(query, beside=False, joins=joins, keys=view.keys)


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
    keep(kept, Random(1), "the rule", key_queries, 40)
    kept = Kept(connection, view, tables, Random(1))
    with pytest.raises(AssertionError, match="the wrong rule"):
        keep(kept, Random(1), "the wrong rule", wrong, 40)


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
    assert not kept.differences()


def _rows_of(kept: Kept, key: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    return {of for of, row in kept.rows["two"].items() if (row["a"],) == key}
