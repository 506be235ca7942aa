"""``headwater apply`` over the state database, killed while a writer works: every view in every
store is what its SQL gives on the source, in the end."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread

import psycopg

from tests.maintain.cases import SHOP
from tests.maintain.workload import transaction
from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

KILLS = 3
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
    """Random transactions, one after the other."""
    ending, generator = Event(), random.Random(seed)

    def write() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not ending.wait(0.02):
                conn.execute(transaction(generator).encode())

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ending.set()
        writer.join()


def test_apply_killed_anywhere_leaves_every_view_equal_to_its_sql(
    deployment: Deployment, lender: Lender, redis_server: str, opensearch: str, store_database: str
) -> None:
    deployment.jvm = lender
    deployment.execute(SHOP)
    names = declare(deployment, redis_server, opensearch, store_database)
    deployment.init()
    generator = random.Random(7)
    with deployment.running("capture") as capture:
        deployment.captured(capture)
        with writing(deployment.dsn, 7):
            for number in range(KILLS):
                with deployment.running("apply", "--json") as process:
                    if number == 1:
                        deployment.execute("alter table customers add column note text default 'x'")
                    turns = applied(deployment) + generator.randint(1, 12)
                    wait_until(partial(at_least, deployment, turns), "rows to be applied")
                    process.kill()
                    process.wait(60)
        with deployment.running("apply", "--json"):
            waited = deployment.run("wait", *names, "--timeout", "120")
            assert waited.returncode == 0, waited.stderr + deployment.log("apply")[-3000:]
            for name in names:
                verified = deployment.run("verify", name)
                assert verified.returncode == 0, verified.stdout + verified.stderr


def at_least(deployment: Deployment, turns: int) -> bool:
    return applied(deployment) >= turns


def applied(deployment: Deployment) -> int:
    """How often apply has told of rows that it wrote."""
    return deployment.log("apply").count("rows_applied")
