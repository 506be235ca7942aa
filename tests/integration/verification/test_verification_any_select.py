"""Views of any SELECT against their source, while both go on changing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import psycopg
import pytest
import redis

from cdc.config import Redis
from jobs.state.server.apply_lock import hold_database
from jobs.state.server.connection import connect
from tests.support.views.kept_views import table
from tests.support.views.state_engine import StateEngine
from verification.report import Report
from verification.scope import published_relations

SQL = """
with lines as (select o.customer, o.id, o.paid from orders o)
select c.id, c.name, count(l.id) as orders, coalesce(sum(l.paid), 0) as paid
from customers c left join lines l on l.customer = c.id
group by c.id, c.name
"""
Make = Callable[..., StateEngine]


@pytest.fixture
def make(database: str, store_database: str, redis_server: str, source_name: str) -> Iterator[Make]:
    made: list[StateEngine] = []

    def engine(sql: str = SQL, key: tuple[str, ...] = ("id",)) -> StateEngine:
        tables = [
            table("customers", ["id"], id="integer", name="text"),
            table("orders", ["id"], id="integer", customer="integer", paid="integer"),
        ]
        store = Redis(kind="redis", url=redis_server)
        made.append(StateEngine(database, store_database, store, source_name, sql, key, tables))
        return made[-1]

    yield engine
    for one in made:
        one.close()


@pytest.fixture
def shop(make: Make) -> StateEngine:
    engine = make()
    engine.change("insert into customers select i, 'c' || i from generate_series(1, 20) i")
    engine.change("insert into orders select i, 1 + i % 20, i from generate_series(1, 100) i")
    engine.apply()
    return engine


def bend(engine: StateEngine, *, lost: int, changed: int, added: int) -> None:
    """Somebody else writes to the store."""
    assert isinstance(engine.store, Redis)
    client: Any = redis.Redis.from_url(engine.store.url, decode_responses=True)
    prefix = f"{engine.view}@1:"
    held = client.hgetall(f"{prefix}{changed}")
    client.delete(f"{prefix}{lost}")
    document = json.loads(held["doc"])
    client.hset(f"{prefix}{changed}", "doc", json.dumps(document | {"name": "bent"}))
    client.hset(f"{prefix}{added}", mapping=held | {"doc": json.dumps(document | {"id": added})})
    client.close()


def told(report: Report) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for item in report.differences:
        found.setdefault(item.kind, []).append(item.key["id"])
    return found


BENT = {"missing": [7], "different": [8], "extra": [99]}
FIXED = [
    # A row that is not there but at the LSN, and a row that is elsewhere but at the LSN: the batch
    # that has both changes has none.
    (
        ["insert into orders values (500, 4, 1)", "update orders set customer = 5 where id = 1"],
        ["delete from orders where id = 500", "update orders set customer = 2 where id = 1"],
    ),
    (["insert into customers values (60, 'c')"], ["delete from customers where id = 60"]),
    # The same for rows that are there before and after.
    (
        ["update orders set paid = 900 where id = 9", "delete from customers where id = 3"],
        ["update orders set paid = 9 where id = 9", "insert into customers values (3, 'c3')"],
    ),
]


def test_a_view_is_equal_and_rows_that_are_not_are_found_in_the_first_round(
    shop: StateEngine,
) -> None:
    report = shop.verify()
    assert (report.equal, report.source_rows, report.view_rows, report.rounds) == (True, 20, 20, 1)
    bend(shop, lost=7, changed=8, added=99)
    report = shop.verify()
    assert (told(report), report.rounds, report.undecided) == (BENT, 1, 0)
    (different,) = (item for item in report.differences if item.kind == "different")
    assert different.columns == {"name": ("c8", "bent")}


def test_without_the_state_database_a_source_that_rests_decides_in_the_first_round(
    shop: StateEngine,
) -> None:
    bend(shop, lost=7, changed=8, added=99)
    assert told(shop.verify(watched=False)) == BENT


@pytest.mark.parametrize(("before", "after"), FIXED)
@pytest.mark.parametrize("watched", [True, False])
def test_what_is_only_at_the_lsn_is_no_difference(
    shop: StateEngine, before: list[str], after: list[str], *, watched: bool
) -> None:
    """One batch has what was committed below the LSN and what was at and behind it."""
    left = {"taking a snapshot of the source": before, "reading the source": after}

    def meanwhile(said: str) -> None:
        for statement in left.pop(said, []):
            shop.change(statement)

    shop.on_step = meanwhile
    report = shop.verify(watched=watched)
    assert left == {}
    assert (report.wrong, report.equal) == (0, True)


def test_rows_that_are_wrong_are_found_while_others_change(shop: StateEngine) -> None:
    numbers = itertools.count(1000)

    def meanwhile(said: str) -> None:
        if not said.startswith("waiting"):
            shop.change(f"insert into orders values ({next(numbers)}, 1, 1)")
            shop.change("update orders set paid = paid + 1 where customer = 2")

    bend(shop, lost=7, changed=8, added=99)
    shop.on_step = meanwhile
    report = shop.verify()
    assert told(report) == BENT
    assert set(report.differences[0].key) == {"id"}


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(1, 6))]
)
@pytest.mark.parametrize("watched", [True, False])
def test_a_right_view_is_never_called_wrong_whatever_changes(
    shop: StateEngine, seed: int, *, watched: bool
) -> None:
    random = Random(seed)

    def meanwhile(said: str) -> None:  # noqa: ARG001
        for _ in range(random.randint(0, 4)):
            shop.change(random_change(random))
            if random.random() < 0.3:
                shop.apply()
            elif random.random() < 0.3:
                shop.batch()

    shop.on_step = meanwhile
    report = shop.verify(watched=watched)
    assert (report.wrong, report.differences) == (0, [])
    shop.on_step = lambda _: None
    assert shop.verify(watched=watched).equal


def random_change(random: Random) -> str:
    order, customer = random.randint(1, 6), random.randint(1, 4)
    paid = random.randint(1, 3)
    return random.choice(
        [
            f"insert into orders values ({order}, {customer}, {paid}) "
            f"on conflict (id) do update set customer = {customer}",
            f"update orders set paid = {paid} where id = {order}",
            f"update orders set customer = {customer} where id = {order}",
            f"delete from orders where id = {order}",
            f"delete from customers where id = {customer}",
            f"insert into customers values ({customer}, 'c') "
            f"on conflict (id) do update set name = 'c'",
        ]
    )


def test_rows_are_repaired_by_whoever_applies_the_view(shop: StateEngine) -> None:
    bend(shop, lost=7, changed=8, added=99)
    with connect(shop.state_dsn, autocommit=True) as applying:
        hold_database(applying)
        report = shop.verify(repair=True)
    assert "waiting for headwater apply to write 3 rows" in shop.steps
    assert (report.wrong, report.repaired, report.equal, report.rounds) == (3, 3, True, 2)
    assert shop.verify().equal


def test_without_an_apply_rows_wait_for_one(shop: StateEngine) -> None:
    bend(shop, lost=7, changed=8, added=99)
    report = shop.verify(repair=True)
    assert (report.wrong, report.repaired, report.awaiting, report.equal) == (3, 0, 3, False)
    shop.apply()
    assert shop.verify().equal


def test_mirrors_that_are_not_what_the_tables_are_cannot_be_repaired_from(
    shop: StateEngine,
) -> None:
    shop.state.execute("update customers set name = 'other' where id = 8")
    bend(shop, lost=7, changed=8, added=99)
    with connect(shop.state_dsn, autocommit=True) as applying:
        hold_database(applying)
        report = shop.verify(repair=True)
    assert (report.wrong, report.repaired, report.beyond_repair, report.awaiting) == (3, 2, 1, 0)


def test_generated_columns_that_events_do_not_carry_are_compared(database: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute("create table doubled (id int, twice int generated always as (id * 2) stored)")
        conn.execute("alter table doubled add primary key (id)")
        conn.execute("insert into doubled values (4)")
        conn.execute("create publication p for table doubled (id)")
        relation = published_relations(conn, "p")("public", "doubled")
        assert conn.execute(f"select id, twice from {relation} d".encode()).fetchall() == [(4, 8)]
