"""``verify``, ``wait`` and ``lag`` of views of any SELECT beside a running ``headwater apply``."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

import headwater
from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.postgres import fresh_database
from tests.support.waiting import wait_until

TABLES = (
    "create table customers (id int primary key, name text not null)",
    "insert into customers select i, 'c' || i from generate_series(1, 200) i",
    "create table orders (id int primary key, customer int not null, paid numeric(8,2) not null)",
    "insert into orders select i, 1 + i % 200, i from generate_series(1, 2000) i",
)
VIEWS = {
    "ranked": """
        with sums as (select customer, sum(paid) as paid, count(*) as orders
                      from orders group by customer)
        select c.id, c.name, coalesce(s.paid, 0) as paid, coalesce(s.orders, 0) as orders,
               exists (select from orders o where o.customer = c.id and o.paid > 1900) as large
        from customers c left join sums s on s.customer = c.id""",
    "placed": """
        select id, customer, paid, row_number() over (partition by customer order by id) as place
        from orders""",
}


@dataclass(frozen=True, slots=True)
class Shop:
    deployment: Deployment
    redis_url: str

    def name(self, view: str) -> str:
        return f"{self.deployment.name}_{view}"

    def json(self, *arguments: str, code: int = 0) -> Any:
        done = self.deployment.run(*arguments, "--json")
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}{self.log()}"
        return json.loads(done.stdout)

    def log(self) -> str:
        return self.deployment.log("apply")[-4000:]

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Rows that come and go, change their group and change back, hundreds of times a second."""
        over = threading.Event()

        def change() -> None:
            with psycopg.connect(self.deployment.dsn, autocommit=True) as conn:
                number = 0
                while not over.wait(0.01):
                    number += 1
                    id_, other = 1 + number % 50, 1 + number % 7
                    conn.execute("update orders set customer = 190 where id = %s", [id_])
                    conn.execute("update orders set customer = %s where id = %s", [other, id_])
                    conn.execute("insert into orders values (%s, 5, 1950)", [10_000 + number])
                    conn.execute("delete from orders where id = %s", [10_000 + number])

        thread = threading.Thread(target=change)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: str,
    kafka: str,
    redis_server: str,
    lender: Lender,
) -> Iterator[Shop]:
    home: Path = tmp_path_factory.mktemp("verified")
    with ExitStack() as stack:
        source = stack.enter_context(fresh_database(postgres))
        deployment = Deployment(home, f"t{os.urandom(5).hex()}", source, kafka, jvm=lender)
        made = Shop(deployment, redis_server)
        declared = "\n".join(
            f'[views.{made.name(view)}]\nstore = "cache"\nkey = ["id"]\nsql = """{sql}"""'
            for view, sql in VIEWS.items()
        )
        deployment.extra = (
            f'[stores.cache]\nkind = "redis"\nurl = "{redis_server}"\n'
            f'[apply]\nengine = "database"\nstate = "{home / "state"}"\n{declared}\n'
        )
        deployment.execute(*TABLES)
        deployment.init()
        capture = stack.enter_context(deployment.running("capture"))
        deployment.captured(capture)
        stack.enter_context(deployment.running("apply", "--json"))
        for view in VIEWS:
            wait_until(partial(live, made, view), f"apply to build {view}", 180)
        yield made


def live(shop: Shop, view: str) -> bool:
    client: Any = redis.Redis.from_url(shop.redis_url)
    return client.get(f"{shop.name(view)}@live") is not None


@pytest.mark.timeout(600)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_equal_while_its_tables_change(shop: Shop, view: str) -> None:
    with shop.changing():
        for _ in range(2):
            done = shop.deployment.run("verify", shop.name(view), "--json")
            report = json.loads(done.stdout)
            assert report["differences"] == []
            assert (report["missing"], report["extra"], report["different"]) == (0, 0, 0)
    assert shop.json("verify", shop.name(view))["equal"]


@pytest.mark.timeout(600)
def test_rows_that_are_wrong_are_found_and_repaired_while_others_change(shop: Shop) -> None:
    client: Any = redis.Redis.from_url(shop.redis_url, decode_responses=True)
    prefix = client.get(f"{shop.name('ranked')}@live")
    held = client.hgetall(f"{prefix}:150")
    assert client.delete(f"{prefix}:151") == 1
    document = json.loads(held["doc"])
    client.hset(f"{prefix}:150", "doc", json.dumps(document | {"name": "bent"}))
    client.hset(f"{prefix}:999", mapping=held | {"doc": json.dumps(document | {"id": 999})})
    with shop.changing():
        report = shop.json("verify", shop.name("ranked"), code=1)
        kinds = {item["key"]["id"]: item["kind"] for item in report["differences"]}
        assert kinds == {150: "different", 151: "missing", 999: "extra"}
        done = shop.deployment.run("verify", shop.name("ranked"), "--repair", "--json")
        report = json.loads(done.stdout)
        assert (report["repaired"], report["awaiting"], report["beyond_repair"]) == (3, 0, 0)
    assert shop.json("verify", shop.name("ranked"))["equal"]


@pytest.mark.timeout(600)
def test_what_was_written_is_waited_for_and_read(shop: Shop) -> None:
    client: Any = redis.Redis.from_url(shop.redis_url, decode_responses=True)
    prefix = client.get(f"{shop.name('ranked')}@live")
    names = [shop.name(view) for view in VIEWS]
    with (
        headwater.Views(shop.deployment.config) as views,
        psycopg.connect(shop.deployment.dsn) as conn,
    ):
        for number in range(10):
            conn.execute("update customers set name = %s where id = 100", [f"new {number}"])
            conn.commit()
            reached = views.wait(*names, lsn=headwater.current_lsn(conn), timeout_s=60)
            assert reached.parked == {}
            assert json.loads(client.hget(f"{prefix}:100", "doc"))["name"] == f"new {number}"
    found = shop.json("wait", *names)
    assert [one["reached"] for one in found["views"]] == [True, True]
    lag = shop.json("lag", *names)
    topics = {(one["view"], one["topic"].rpartition(".")[2]) for one in lag["views"]}
    assert topics == {(names[0], "customers"), (names[0], "orders"), (names[1], "orders")}
    assert {one["state"] for one in lag["views"]} == {"idle"}
    assert lag["faults"] == []
