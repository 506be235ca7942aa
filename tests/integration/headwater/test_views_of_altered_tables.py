"""Tables that are altered while ``headwater apply`` keeps views of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support.commands.view_shop import ITEMS, Shop, opened
from tests.support.servers.forked_command import Child
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: str,
    kafka: str,
    redis_server: str,
    lender: Lender,
) -> Iterator[Shop]:
    home, views = tmp_path_factory.mktemp("altered"), {"items": ITEMS}
    with opened(home, postgres, kafka, redis_server, lender, views) as made:
        yield made


@pytest.fixture(scope="module")
def running(shop: Shop) -> Iterator[Child]:
    with shop.applied() as process:
        wait_until(lambda: shop.built("items"), "apply to build what is declared", 120)
        yield process


def test_a_column_that_is_added_makes_no_row_anew(shop: Shop, running: Child) -> None:
    """A view that shows it goes on with it, one that does not is not touched."""
    shop.deployment.execute(
        "create table wide (id int primary key, word text)",
        "insert into wide select i, 'word ' || i from generate_series(1, 150) i",
    )
    shop.done("table", "add", "public.wide")
    shop.declare("narrow", "select id, word from wide")
    shows = [shop.declare("every", "select * from wide", store) for store in ("cache",)]
    shows.append(shop.declare("each", "select w.*, 1 as one from wide w", "tables"))
    wait_until(lambda: shop.built("narrow", "every", "each"), "them to be built")
    before = len(shop.deployment.log("apply"))
    shop.deployment.execute(
        "alter table wide add late int",
        "update wide set late = id where id < 4",
        "update wide set word = 'other' where id = 9",
    )
    for name in (*shows, shop.name("narrow")):
        assert "equal at LSN" in shop.done("verify", name, "--timeout", "120")
    lines = shop.deployment.log("apply")[before:].splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    rows = Counter[str]()
    for one in told:
        if one["event"] == "rows_applied":
            rows[one["view"]] += one["rows"]
    assert max(rows.values()) < 20, rows
    started = {one["view"] for one in told if one["event"] == "view_started"}
    assert started == set(shows)
    assert shop.shown("every")[2]["late"] == 2
    with psycopg.connect(shop.store_dsn) as conn:
        found = conn.execute(f"select late from {shows[1]} where id in (3, 9)".encode()).fetchall()
    assert sorted(found, key=str) == [(3,), (None,)]
    shop.forget("narrow", "every", "each")
    assert running.poll() is None


def test_what_was_altered_is_built_from_at_once(shop: Shop, running: Child) -> None:
    """Before any change of the table, which alone tells apply."""
    shop.deployment.execute(
        "create table fresh (id int primary key, word varchar(20), n int)",
        "insert into fresh select i, 'word ' || i, i from generate_series(1, 150) i",
    )
    shop.done("table", "add", "public.fresh")
    steps = {
        "select id, word, n from fresh": [],
        "select id, word, late from fresh": ["alter table fresh add late int default 7"],
        "select * from fresh where n > 5": ["alter table fresh rename word to text"],
        "select id, upper(text) as text, late from fresh": ["alter table fresh drop n"],
        "select id, text, trunc(late)::int as late from fresh": [
            "alter table fresh alter late type numeric using late + 0.5"
        ],
    }
    for sql, altered in steps.items():
        shop.deployment.execute(*altered)
        name = shop.declare("fresh", sql)
        shop.done("view", "rebuild" if altered else "create", name)
        assert shop.shown("fresh") == shop.expected(sql)
    shop.deployment.execute("update fresh set late = id, text = 'other' where id < 9")
    assert "equal at LSN" in shop.done("verify", name, "--timeout", "120")
    assert running.poll() is None


def test_a_refused_rebuild_is_no_fault_of_what_is_live(shop: Shop, running: Child) -> None:
    name = shop.declare("fresh", "select id, missing from fresh")
    assert "missing" in shop.refused("view", "rebuild", name)

    def shown() -> Any:
        return json.loads(shop.done("view", "show", name, "--json"))

    found = wait_until(lambda: (one := shown())["build_error"] and one, "the build's fault")
    assert "missing" in found["build_error"]
    assert found["error"] is None
    assert "refused" in shop.done("view", "list")
    shop.done("wait", name, "--timeout", "30")
    shop.done("lag", name)
    shop.declare("fresh", "select id, ntile(2) over (order by id) as half from fresh")
    assert "has more than 149 rows and can only be recomputed as a whole" in shop.refused(
        "view", "rebuild", name
    )
    assert json.loads(shop.done("view", "show", name, "--json"))["building"] is None
    shop.declare("fresh", "select id, text from fresh")
    shop.done("view", "rebuild", name)
    wait_until(lambda: shown()["build_error"] is None, "it to be forgotten")
    shop.forget("fresh")
    assert running.poll() is None


def test_a_table_that_has_another_name_is_told_and_comes_back(shop: Shop, running: Child) -> None:
    """Events of the old name end, and nothing else tells."""
    execute = shop.deployment.execute
    execute(
        "create schema elsewhere",
        "create table moved (id int primary key, word text)",
        "insert into moved select i, 'word ' || i from generate_series(1, 20) i",
    )
    shop.done("table", "add", "public.moved")
    sql = "select id, word from moved"
    name = shop.declare("moved", sql)
    wait_until(lambda: shop.built("moved"), "it to be built", 60)

    def told(words: str) -> None:
        def error() -> bool:
            return words in str(json.loads(shop.done("view", "show", name, "--json"))["error"])

        wait_until(error, f"{words!r} to be told", 60)
        assert shop.deployment.run("lag", name).returncode == 1

    before = shop.shown("moved")
    execute("alter table moved rename to other", "update other set word = 'as other'")
    told("public.moved was renamed to public.other in the source")
    assert shop.shown("moved") == before
    assert "renamed to public.other" in shop.refused("view", "rebuild", name)
    execute("alter table other rename to moved")
    shop.equal("moved", sql)
    execute(
        "create table later (id int primary key, word text, n int)",
        "insert into later values (7, 'later', 1)",
        "begin; alter table moved rename to sooner; alter table later rename to moved; commit",
    )
    told("public.moved: not in publication")
    shop.done("table", "add", "public.moved")
    shop.equal("moved", sql)
    execute("insert into moved values (8, 'behind', 2)")
    shop.equal("moved", sql)
    execute("alter table moved set schema elsewhere")
    told("public.moved was renamed to elsewhere.moved in the source")
    execute("drop table elsewhere.moved; drop table sooner")
    shop.forget("moved")
    assert running.poll() is None
