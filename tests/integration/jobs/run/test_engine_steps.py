"""``headwater apply`` over the state database, killed at each step of its work, those of a view in
each kind of store, while a writer works: every view is what its SQL gives on the source."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from threading import Event, Thread
from typing import Final

import psycopg
import pytest

from tests.chaos.faults.step_kills import BUILDING, STEPS, VARIABLE, told
from tests.chaos.views.declarations import STORES
from tests.sql_maintenance.cases import SHOP
from tests.sql_maintenance.workload import transaction
from tests.support.commands.deployment import Deployment
from tests.support.servers.forked_command import Child
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.postgres import fresh_database
from tests.support.waiting import wait_until

TIMES = 2
"""A step's first time may be while apply catches up with what it missed."""
VIEWS = {
    "placed": (
        "cache",
        ["id"],
        "select o.id, o.status, o.total, c.name from orders o "
        "left join customers c on c.id = o.customer_id",
    ),
    "top": (
        "search",
        ["id"],
        "select id, customer_id, nth from (select id, customer_id, row_number() over "
        "(partition by customer_id order by total desc nulls last, id) as nth from orders "
        "where customer_id is not null) q where nth <= 2",
    ),
    "cities": (
        "tables",
        ["city"],
        "select coalesce(c.city, '?') as city, count(*) as n, sum(o.total) as total "
        "from customers c left join orders o on o.customer_id = c.id group by 1",
    ),
    "bought": (
        "lake",
        ["order_id", "no"],
        "select l.order_id, l.no, l.quantity, p.price from lines l "
        "left join products p on p.sku = l.sku",
    ),
}


def declare(deployment: Deployment, redis_url: str, search_url: str, store_dsn: str) -> list[str]:
    """Write a configuration with a view in each store; their names."""
    prefix = deployment.name
    stores = (
        f'[stores.cache]\nkind = "redis"\nurl = "{redis_url}"\n'
        f'[stores.search]\nkind = "opensearch"\nurl = "{search_url}"\n'
        f'[stores.tables]\nkind = "postgres"\ndsn = "{store_dsn}"\n'
        f'[stores.lake]\nkind = "delta"\npath = "{deployment.home / "lake"}"\ncadence_s = 0.2\n'
        f'[apply]\nengine = "database"\nstate = "{deployment.home / "state"}"\n'
    )
    declared = [
        f'[views.{prefix}_{name}]\nstore = "{store}"\nkey = {json.dumps(key)}\nsql = """{sql}"""\n'
        for name, (store, key, sql) in VIEWS.items()
    ]
    deployment.extra = stores + "".join(declared)
    deployment.write()
    return [f"{prefix}_{name}" for name in VIEWS]


@contextmanager
def writing(dsn: str, seed: int) -> Iterator[None]:
    """Random transactions, one after the other, ten a second: each batch has some."""
    ending, generator = Event(), random.Random(seed)

    def write() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not ending.wait(0.1):
                conn.execute(transaction(generator).encode())

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ending.set()
        writer.join()


SAME: Final = {"before a batch", "before rows go to {}", "before offsets are told"}
"""Steps before which, since the one that precedes them, records, rows and keys were only read: what
a kill leaves is the same. Chaos has them all."""


def of_a_batch() -> Iterator[tuple[str, str]]:
    """Steps, with the kind of store that each is of. A write that is half done is another thing in
    each store; what is before and behind it is the keeper's, which knows no kinds of stores."""
    one_of = cycle(STORES)
    for name, step in STEPS.items():
        if name in SAME:
            continue
        if step.half:
            yield from ((name, store) for store in STORES)
        else:
            yield name, next(one_of) if step.of_store else ""


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory,
    lender: Lender,
    postgres: str,
    kafka: str,
    redis_server: str,
    opensearch: str,
) -> Iterator[Deployment]:
    """A shop that is captured and written to, and declared views, a store of each kind."""
    home = tmp_path_factory.mktemp("steps")
    with fresh_database(postgres) as source, fresh_database(postgres) as store:
        made = Deployment(home, f"t{os.urandom(5).hex()}", source, kafka, jvm=lender)
        made.execute(SHOP)
        declare(made, redis_server, opensearch, store)
        made.init()
        with made.running("capture") as capture:
            made.captured(capture)
            yield made


def names(deployment: Deployment) -> list[str]:
    return [f"{deployment.name}_{view}" for view in VIEWS]


@contextmanager
def dying(deployment: Deployment, step: str, store: str, times: int) -> Iterator[Child]:
    """An apply that kills itself there; at the end it must have."""
    deployment.environment = {VARIABLE: told(step, store, times)}
    with deployment.running("apply", "--json") as child:
        deployment.environment = {}
        yield child
        where = f"apply to die {step.format(store)}"
        wait_until(lambda: child.poll() is not None, where, 300)
        assert child.returncode == -9, f"{where}: {deployment.log('apply')[-3000:]}"


def equal(deployment: Deployment) -> None:
    """All views, by an apply that lives."""
    waited = deployment.run("wait", *names(deployment), "--timeout", "280")
    assert waited.returncode == 0, waited.stderr + deployment.log("apply")[-3000:]
    for name in names(deployment):
        verified = deployment.run("verify", name)
        assert verified.returncode == 0, verified.stdout + verified.stderr


def streams_again(deployment: Deployment, before: int) -> bool:
    return deployment.log("apply").count("stream_started") > before


@pytest.mark.timeout(1200)  # a dozen processes, one after the other
def test_killed_at_each_step_of_a_batch_and_of_each_store_every_view_is_right(
    shop: Deployment,
) -> None:
    with writing(shop.dsn, 11):
        for number, (step, store) in enumerate(of_a_batch()):
            with dying(shop, step, store, TIMES):
                if number == 1:
                    shop.execute("alter table customers add column note text default 'x'")
    with shop.running("apply", "--json"):
        equal(shop)


STEPS_OF_A_BUILD = ("behind a generation loaded", "behind a generation shown")
"""What is behind the others the next build finds as it was (``bootstrap/test_build_kills.py``)."""


@pytest.mark.timeout(1200)  # some processes, one after the other
@pytest.mark.parametrize(
    "steps", [STEPS_OF_A_BUILD, pytest.param(tuple(BUILDING), marks=pytest.mark.exhaustive)]
)
def test_killed_at_each_step_of_a_build_the_command_goes_on_and_every_view_is_right(
    shop: Deployment, steps: tuple[str, ...]
) -> None:
    with writing(shop.dsn, 11):
        with shop.running("apply", "--json"):
            waited = shop.run("wait", *names(shop), "--timeout", "280")
            assert waited.returncode == 0, waited.stderr
        for step, name in zip(steps, names(shop), strict=False):
            before = shop.log("apply").count("stream_started")
            with dying(shop, step, "", 1):
                wait_until(partial(streams_again, shop, before), "the stream")
                with shop.running("view", "rebuild", name) as command:
                    assert command.wait(120) != 0
    with shop.running("apply", "--json"):
        done = shop.run("view", "rebuild", *names(shop))
        assert done.returncode == 0, done.stderr
        equal(shop)
