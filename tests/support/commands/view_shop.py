"""A deployment whose views a running ``headwater apply`` keeps, and what its readers see."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
import redis

from tests.support.commands import short_waits
from tests.support.commands.deployment import Deployment
from tests.support.servers.forked_command import Child
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.postgres import fresh_database
from tests.support.waiting import wait_until

ROWS = 200


TABLES = (
    "create table kind (id int primary key, name text not null)",
    "insert into kind select i, 'kind ' || i from generate_series(1, 5) i",
    "create table item (id int primary key, kind_id int not null, name text not null, n int)",
    f"insert into item select i, 1 + i % 5, 'item ' || i, i from generate_series(1, {ROWS}) i",
    "create table spare (id int primary key, word text)",
    "insert into spare select i, 'word ' || i from generate_series(1, 10) i",
)


ITEMS = "select i.id, i.name, k.name as kind from item i join kind k on k.id = i.kind_id"

LOUD = ITEMS.replace("i.name,", "upper(i.name) as name,")


KINDS = "select k.id, k.name, count(i.id) as items from kind k " \
    "left join item i on i.kind_id = k.id group by k.id, k.name"  # fmt: skip


SPARE = "select id, word from spare"


@dataclass(slots=True)
class Shop:
    """A deployment whose capture runs; views by their short names."""

    deployment: Deployment
    redis_url: str
    store_dsn: str
    views: dict[str, tuple[str, str]] = field(default_factory=dict)
    of_views: str = ""
    """More lines of each view's section."""
    beside: str = ""
    """More sections."""
    of_view: dict[str, str] = field(default_factory=dict)
    """The same of one view, by its short name."""

    def name(self, view: str) -> str:
        return f"{self.deployment.name}_{view}"

    def declare(self, view: str, sql: str, store: str = "cache", more: str = "") -> str:
        self.views[view], self.of_view[view] = (store, sql), more
        self.write()
        return self.name(view)

    def forget(self, *views: str) -> None:
        for view in views:
            self.views.pop(view, None)
        self.write()

    def write(self) -> None:
        declared = "\n".join(
            f'[views.{self.name(view)}]\nstore = "{store}"\nkey = ["id"]\nsql = """{sql}"""\n'
            f"{self.of_views}{self.of_view[view]}"
            for view, (store, sql) in self.views.items()
        )
        self.deployment.extra = (
            f'[stores.cache]\nkind = "redis"\nurl = "{self.redis_url}"\n'
            f'[stores.tables]\nkind = "postgres"\ndsn = "{self.store_dsn}"\n'
            f'[apply]\nengine = "database"\nstate = "{self.deployment.home / "state"}"\n'
            f"retry_s = 5\nwhole_rows = 149\n{declared}\n{self.beside}"
        )
        self.deployment.write()

    def done(self, *arguments: str) -> str:
        ended = self.deployment.run(*arguments)
        assert ended.returncode == 0, f"{arguments}: {ended.stderr}\n{self.log()}"
        return ended.stdout

    def refused(self, *arguments: str, code: int = 1) -> str:
        ended = self.deployment.run(*arguments)
        assert ended.returncode == code, f"{arguments}: {ended.stdout}{ended.stderr}"
        return ended.stderr

    def log(self) -> str:
        return self.deployment.log("apply")[-6000:]

    def shown(self, view: str) -> dict[int, dict[str, Any]]:
        """What readers of Redis see, by id."""
        client: Any = redis.Redis.from_url(self.redis_url, decode_responses=True)
        rows = client.get(f"{self.name(view)}@live")
        assert rows, "nothing is live"
        keys = [f"{rows}:{i}" for i in range(1, 2 * ROWS)]
        pipeline = client.pipeline(transaction=False)
        for key in keys:
            pipeline.hget(key, "doc")
        found = [json.loads(doc) for doc in pipeline.execute() if doc is not None]
        return {one["id"]: one for one in found}

    def expected(self, sql: str) -> dict[int, dict[str, Any]]:
        with psycopg.connect(self.deployment.dsn) as conn:
            rows = conn.execute(f"select to_jsonb(v) from ({sql}) v".encode()).fetchall()
        return {row["id"]: row for (row,) in rows}

    def equal(self, view: str, sql: str) -> None:
        """Readers see what the SQL gives, in the end."""
        wait_until(
            lambda: self.shown(view) == self.expected(sql),
            f"{view} to be equal to {sql}",
        )

    def live(self, view: str) -> Any:
        (found,) = [
            one
            for one in json.loads(self.done("view", "list", "--json"))
            if one["view"] == self.name(view)
        ]
        return found["live"]

    def built(self, *views: str) -> bool:
        """Whether readers see them. It is for waiting: a command, asked again and again, takes the
        time of what is waited for."""
        client: Any = redis.Redis.from_url(self.redis_url)
        with psycopg.connect(self.store_dsn) as conn:
            return all(
                client.exists(f"{self.name(view)}@live")
                if self.views[view][0] == "cache"
                else conn.execute("select to_regclass(%s)", [self.name(view)]).fetchone() != (None,)
                for view in views
            )

    def state(self) -> Any:
        """What `headwater state` tells."""
        return json.loads(self.done("state", "--json"))

    @contextmanager
    def applied(self, *arguments: str) -> Iterator[Child]:
        with self.deployment.running("apply", "--json", *arguments) as process:
            yield process


@contextmanager
def opened(
    home: Path,
    postgres: str,
    kafka: str,
    redis_url: str,
    lender: Lender,
    views: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Shop]:
    """A shop that is captured, with declared views."""
    with fresh_database(postgres) as source, fresh_database(postgres) as store:
        name = f"t{os.urandom(5).hex()}"
        deployment = Deployment(home, name, source, kafka, jvm=lender)
        deployment.environment = short_waits.waiting(short_waits.OF_APPLY)
        deployment.execute(*TABLES)
        made = Shop(deployment, redis_url, store)
        made.write()
        for view, sql in views.items():
            made.declare(view, sql)
        deployment.init()
        with deployment.running("capture") as capture:
            deployment.captured(capture)
            yield made
