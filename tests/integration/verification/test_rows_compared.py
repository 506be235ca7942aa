"""Two SELECTs beside each other: every difference is counted once, whatever the types."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from cdc.errors import HeadwaterError
from jobs.state.server.connection import Connection
from tests.support.servers.postgres import fresh_database
from verification.rows_compared import RowsCompared, compare


@pytest.fixture(scope="module")
def conn(postgres: str) -> Iterator[Connection]:
    with fresh_database(postgres) as dsn, psycopg.connect(dsn, autocommit=True) as found:
        yield found


def rows(*values: str) -> str:
    return f"select * from (values {', '.join(values)}) v (id, name, n)"


def compared(
    conn: Connection, one: str, other: str, most: int = 10, timeout_s: float = 60
) -> RowsCompared:
    return compare(conn, "v", one, other, ["id"], ["name", "n"], most, timeout_s)


def test_rows_are_added_removed_and_changed(conn: Connection) -> None:
    one = rows("(1, 'a', 1)", "(2, 'b', 2)", "(3, null, 3)", "(4, 'd', null)", "(5, 'e', 5)")
    other = rows("(2, 'b', 2)", "(3, 'c', 3)", "(4, 'd', 4)", "(5, 'f', 6)", "(9, 'i', 9)")
    found = compared(conn, one, other)
    assert (found.rows, found.other_rows) == (5, 5)
    assert (found.added, found.removed, found.changed) == (1, 1, 3)
    assert found.columns == {"name": 2, "n": 2}
    assert [(one["kind"], one["key"]["id"]) for one in found.keys] == [
        ("removed", "1"), ("changed", "3"), ("changed", "4"), ("changed", "5"), ("added", "9"),
    ]  # fmt: skip
    assert len(compared(conn, one, other, most=2).keys) == 2
    assert compared(conn, one, other, most=0).keys == []


@pytest.mark.parametrize(
    "other",
    [
        "select id, name, n from (values (1, 'a', 1)) v (id, name, n)",
        "select id::text, name::varchar, n::int8 from (values (1, 'a', 1)) v (id, name, n)",
        "select n, name, id, now() as more from (values (1, 'a', 1)) v (id, name, n)",
    ],
)  # fmt: skip
def test_what_is_shown_the_same_is_the_same(conn: Connection, other: str) -> None:
    found = compared(conn, rows("(1, 'a', 1)"), other)
    assert found.equal
    assert found.keys == []


@pytest.mark.parametrize(
    ("one", "other", "unfit"),
    [
        (["(1, 'a', 1)"], ["(1, 'a', 1)", "(1, 'a', 1)"], (0, 1)),
        (["(1, 'a', 1)", "(1, 'b', 1)", "(1, 'b', 2)"], ["(1, 'a', 1)"], (1, 0)),
        (["(null::int, 'a', 1)"], ["(null::int, 'a', 1)"], (1, 1)),
        (["(1, 'a', 1)", "(2, 'a', 1)"], ["(1, 'a', 1)", "(2, 'a', 1)"], (0, 0)),
    ],
)
def test_keys_of_several_rows_and_of_none_are_never_the_same(
    conn: Connection, one: list[str], other: list[str], unfit: tuple[int, int]
) -> None:
    found = compared(conn, rows(*one), rows(*other))
    assert (found.unfit, found.other_unfit) == unfit
    assert found.equal is (unfit == (0, 0))


def test_values_without_an_equality_and_odd_names_are_compared(conn: Connection) -> None:
    sql = 'select 1 as "I\'d ""x", \'{0}\'::json as "a b", \'(1,2)\'::point as p'
    found = compare(
        conn, "v", sql.format('{"a":1}'), sql.format('{"a":2}'),
        ['I\'d "x'], ["a b", "p"], 5, 60,
    )  # fmt: skip
    assert (found.changed, found.columns) == (1, {"a b": 1})
    assert found.keys[0]["key"] == {"I'd \"x": "1"}


def test_views_of_a_key_alone_and_of_no_row(conn: Connection) -> None:
    nothing = "select 1 as id where false"
    found = compare(conn, "v", nothing, "select 1 as id", ["id"], [], 5, 60)
    assert (found.rows, found.other_rows, found.added) == (0, 1, 1)
    assert compare(conn, "v", nothing, nothing, ["id"], [], 5, 60).equal


def test_it_ends_when_its_time_is_over_and_says_what_fails(conn: Connection) -> None:
    slow = "select 1 as id, 'a' as name, 1 as n from pg_sleep(30)"
    with pytest.raises(HeadwaterError, match="comparing rows of view v"):
        compared(conn, slow, slow, timeout_s=0.1)
    failing = "select 1 as id, 'a' as name, 1 / (random() * 0)::int as n"
    with pytest.raises(HeadwaterError, match="data error"):
        compared(conn, rows("(1, 'a', 1)"), failing)
    assert compared(conn, rows("(1, 'a', 1)"), rows("(1, 'a', 1)")).equal, "the session goes on"
