"""A shop whose views any SELECT declares, and what its processes say over HTTP."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import redis

from stack.ports import free_port
from tests.support.commands import short_waits
from tests.support.commands.deployment import Deployment
from tests.support.commands.scraping import Age, get, scrape
from tests.support.servers.forked_command import Child
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.postgres import fresh_database
from tests.support.servers.proxy import Proxy, proxied
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
    "paid": "select id, customer, paid from orders where paid > 0",
}

_SOON: Final = {
    "headwater.freshness:_REST": 0,
    "cdc.lag.states:STALLED_S": 5.0,
    "jobs.sinks.redis.client:TIMEOUT_S": 5.0,
}
"""Of apply, which a store that stalls keeps waiting: for how long is no matter here."""


@dataclass(frozen=True, slots=True)
class Shop:
    deployment: Deployment
    redis_url: str
    store: Proxy
    """Between apply and Redis."""
    ports: dict[str, int]
    """Of the metrics, by the process."""
    processes: dict[str, Child]

    def get(self, process: str, path: str) -> tuple[int, str]:
        return get(self.ports[process], path)

    def scrape(self, process: str) -> dict[tuple[str, ...], float]:
        return scrape(self.ports[process])

    def committed(self, *statements: str) -> Age:
        age = Age()
        self.deployment.execute(*statements)
        age.ends()
        return age

    @contextmanager
    def frozen(self, process: str) -> Iterator[None]:
        """A process that keeps its connections and does nothing."""
        self.processes[process].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes[process].send_signal(signal.SIGCONT)

    def name(self, view: str) -> str:
        return f"{self.deployment.name}_{view}"

    def json(self, *arguments: str, code: int | None = 0) -> Any:
        """What a command prints; `code` is the exit code it must have, None for any."""
        done = self.deployment.run(*arguments, "--json")
        assert code in (None, done.returncode), (
            f"{arguments}: {done.stdout}{done.stderr}{self.log()}"
        )
        return json.loads(done.stdout)

    def log(self) -> str:
        return self.deployment.log("apply")[-4000:]

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Rows that come and go, change their group and change back, forty times a second."""
        over = threading.Event()

        def change() -> None:
            with psycopg.connect(self.deployment.dsn, autocommit=True) as conn:
                number = 0
                while not over.wait(0.1):
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


def calm(shop: Shop) -> None:
    """Capture and all views are well, and nothing is left to do."""

    began = time.time()

    def well() -> bool:
        found = shop.scrape("apply") | shop.scrape("capture")
        measured = "headwater_measured_timestamp_seconds", "apply"
        assert found[measured] > began + 1, "what was frozen tells what it saw before"
        states = [at for at, value in found.items() if at[0].endswith("_state") and value]
        assert len(states) == 1 + len(VIEWS)
        assert {state for _, state, *_ in states} <= {"idle", "fresh"}, states
        source = shop.deployment.name
        left = (found["headwater_view_lag_records", source, shop.name(view)] for view in VIEWS)
        return not any(left)

    wait_until(well, "all to be well")


@contextmanager
def verified_shop(
    home: Path, postgres: str, kafka: str, redis_server: str, lender: Lender
) -> Iterator[Shop]:
    """The views in Redis, behind a proxy, beside a capture and an apply that have metrics."""
    with ExitStack() as stack:
        source = stack.enter_context(fresh_database(postgres))
        deployment = Deployment(home, f"t{os.urandom(5).hex()}", source, kafka, jvm=lender)
        store_url, store = stack.enter_context(proxied(redis_server))
        ports = {"capture": free_port(set())}
        ports["apply"] = free_port(set(ports.values()))
        made = Shop(deployment, redis_server, store, ports, {})
        declared = "\n".join(
            f'[views.{made.name(view)}]\nstore = "cache"\nkey = ["id"]\nsql = """{sql}"""'
            for view, sql in VIEWS.items()
        )
        deployment.extra = (
            f'[stores.cache]\nkind = "redis"\nurl = "{store_url}"\n'
            f"[metrics]\ncapture = {ports['capture']}\napply = {ports['apply']}\n"
            "[capture]\nheartbeat_s = 2\n"
            f'[apply]\nengine = "database"\nretry_s = 5\nstate = "{home / "state"}"\n{declared}\n'
        )
        deployment.execute(*TABLES)
        deployment.init()
        capture = stack.enter_context(deployment.running("capture"))
        deployment.captured(capture)
        deployment.environment = short_waits.waiting(_SOON)
        apply = stack.enter_context(deployment.running("apply", "--json"))
        deployment.environment = {}
        made.processes.update(capture=capture, apply=apply)
        client: Any = redis.Redis.from_url(redis_server)
        for view in VIEWS:
            live = partial(client.get, f"{made.name(view)}@live")
            wait_until(live, f"apply to build {view}", 180)
        yield made
