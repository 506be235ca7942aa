"""A source whose log is written by hand, and a view of it in a store of each kind, kept by drivers
that are killed (``tests.support.commands.killed_drivers``)."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import opensearchpy
import psycopg
import pyarrow as pa
import redis
from deltalake import DeltaTable, QueryBuilder

from cdc.kafka.broker import Broker
from cdc.topics import view_dead_letters_topic, view_group
from jobs.generations.view_state import view_directory
from jobs.sinks.opensearch.mapping import DELETED_AT
from jobs.without_mirrors.dead_letters.topic import read_letters
from tests.support.commands.killed_drivers import Driver
from tests.support.events.events import delete, event, snapshot, truncate
from tests.support.events.written_topics import CUSTOMERS, ORDERS, Log
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

_FOLDED = "select id, customer_id, note from orders"
_JOINED = """
    select o.id, o.note, c.name from orders o left join customers c on c.id = o.customer_id
"""
VIEWS = ("cache", "lake", "table", "joined")
"""The last one is of two tables, over mirrors. Each has a store of its own, called the same."""


class Urls(NamedTuple):
    """Where the stores are. The view ``cache`` is written through ``proxied``."""

    redis: str
    proxied: str
    lake: str
    postgres: str
    opensearch: str

    def stores(self) -> dict[str, dict[str, str]]:
        """As they are configured, by view."""
        return {
            "cache": {"kind": "redis", "url": self.proxied},
            "lake": {"kind": "delta", "path": self.lake},
            "table": {"kind": "postgres", "dsn": self.postgres},
            "joined": {"kind": "opensearch", "url": self.opensearch},
        }


class Expected(NamedTuple):
    """The rows of each view, the secondary sets in Redis, and the orders that are parked."""

    shown: dict[str, dict[int, tuple[Any, ...]]]
    sets: dict[str, set[str]]
    parked: frozenset[int]


class EveryStore:
    """Two tables, what they hold, and a view of them in each store."""

    def __init__(self, jvm: Lender, kafka: str, source: str, home: Path, urls: Urls) -> None:
        self.jvm, self.home = jvm, home
        self.broker = Broker(kafka)
        self.orders, self.customers = Log(kafka, source, "orders"), Log(kafka, source, "customers")
        self.orders.describe(ORDERS)
        self.customers.describe(CUSTOMERS)
        self.views = {name: f"{source}_{name}" for name in VIEWS}
        self.urls = urls
        self.redis: Any = redis.Redis.from_url(urls.redis, decode_responses=True)
        self.lsn = 0
        self.of: dict[int, tuple[int, str]] = {}
        self.named: dict[int, str] = {}
        self.parked: set[int] = set()
        self.config = {
            "source": {"name": source, "dsn": "dbname=unused", "tables": ["public.*"]},
            "kafka": {"bootstrap_servers": kafka},
            "stores": urls.stores(),
            "views": {
                view: {
                    "store": name,
                    "key": ["id"],
                    "sql": _JOINED if name == "joined" else _FOLDED,
                    **({"index_by": ["note"]} if name == "cache" else {}),
                }
                for name, view in self.views.items()
            },
            "apply": {"state": str(home / "state"), "retry_s": 300},
        }

    # What happens to the source.

    def customer(self, id_: int, name: str) -> None:
        op = "u" if id_ in self.named else "c"
        self.lsn += 1
        self.named[id_] = name
        values = {"id": id_, "name": name}
        self.customers.write(event(self.lsn, 1, values, op, schema_id=CUSTOMERS.schema_id()))

    def order(self, customer: int, note: str, *ids: int) -> None:
        """One transaction."""
        self.lsn += 1
        written = []
        for number, id_ in enumerate(ids, 1):
            values = {"id": id_, "customer_id": customer, "total": 1, "note": note}
            op = "u" if id_ in self.of else "c"
            written.append(event(self.lsn, number, values, op, schema_id=ORDERS.schema_id()))
            self.of[id_] = customer, note
        self.orders.write(*written)

    def poison(self, id_: int) -> None:
        """What is no event; its key is parked."""
        self.orders.write((json.dumps({"id": id_}, separators=(",", ":")).encode(), b"odd"))
        self.parked.add(id_)

    def drop(self, *ids: int) -> None:
        """Their rows are deleted; they are parked no more."""
        for id_ in ids:
            self.lsn += 1
            self.of.pop(id_, None)
            self.parked.discard(id_)
            self.orders.write(*delete(self.lsn, 1, {"id": id_}, ORDERS.schema_id()))

    def late(self, id_: int, note: str) -> None:
        """The row of an order of customer 1, which a snapshot had read before it was deleted."""
        values = {"id": id_, "customer_id": 1, "total": 1, "note": note}
        self.orders.write(snapshot(self.lsn - 1, values, ORDERS.schema_id()))

    def truncate(self, *ids: int) -> None:
        """All orders go, and some come again."""
        self.lsn += 1
        self.orders.write(truncate(self.lsn, 1, ORDERS.schema_id()))
        self.of = {}
        self.order(1, f"since {self.lsn}", *ids)

    # What becomes of it.

    def forget_deleted(self) -> None:
        """No store remembers any more what was deleted, as after an outage of a day."""
        for commit in self.home.rglob("commits/*"):
            os.utime(commit, times=(time.time() - 90_000,) * 2)
        for key in self.redis.scan_iter(f"{self.cached}:*", count=5_000):
            if self.redis.hget(key, "doc") is None:
                self.redis.delete(key)
        with psycopg.connect(self.urls.postgres) as conn:
            table = f"{self.views['table']}@1"
            conn.execute(f'delete from "{table}" where "__deleted_at" is not null'.encode())
        index, gone = f"{self.views['joined']}-1", {"query": {"exists": {"field": DELETED_AT}}}
        with opensearchpy.OpenSearch([self.urls.opensearch]) as client:
            at_once = {"index": {"gc_deletes": "0ms"}}  # else the version is known for a minute
            client.indices.put_settings(index=index, body=at_once)
            client.delete_by_query(index=index, body=gone, params={"refresh": "true"})
            assert client.count(index=index, body=gone)["count"] == 0

    def started(self, held: bool = False) -> Driver:
        """A driver; ``held``: it repeats the batches that were killed, and waits at the next."""
        after = {view: self._planned(view) for view in self.views.values()} if held else None
        return Driver(self.jvm.lend(), self.config, self.home, after)

    def _planned(self, view: str) -> int:
        """The newest batch, committed or not."""
        source = self.orders.source
        batches = view_directory(str(self.home / "state"), source, view) / "checkpoint" / "offsets"
        return max((int(one.name) for one in batches.glob("[0-9]*")), default=-1)

    def armed(self, driver: Driver, points: Mapping[str, str]) -> None:
        """Let a driver kill itself at these points, by the views' short names; wait for that."""
        found = {self.views[name]: point for name, point in points.items()}
        driver.arm(found)
        driver.killed(found)

    def forget(self, driver: Driver) -> None:
        """Kill what may still live of a driver."""
        driver.kill()
        self.jvm.taken_back(driver.loan)

    def settled(self, driver: Driver) -> None:
        """Wait until all is applied, and ``check``."""
        topics = {name: [self.orders.topic] for name in VIEWS}
        topics["joined"] = [self.orders.topic, self.customers.topic]

        def done() -> bool:
            driver.check()
            return all(
                self.broker.committed(view_group(self.views[name]), of)
                == self.broker.end_offsets(of)
                for name, of in topics.items()
            )

        wait_until(done, "all views to be at the end", 400)
        self.check(self.expected())

    def calm(self) -> None:
        """A driver applies all there is, and every store is right."""
        driver = self.started()
        try:
            self.settled(driver)
        finally:
            self.forget(driver)

    def check(self, expected: Expected) -> None:
        """Each store has the rows, and what is parked was written once."""
        assert self.shown() == expected.shown
        assert self.sets() == expected.sets
        for view in self.views.values():
            written = self.written(view)
            assert written == dict.fromkeys(written, 1)
            letters = chain.from_iterable(
                of.keys for of in read_letters(self.broker, view).values()
            )
            assert {json.loads(owner.key)["id"] for owner in letters} == expected.parked

    def written(self, view: str) -> Counter[bytes]:
        """How often each letter was written."""
        topic = view_dead_letters_topic(view)
        if topic not in self.broker.partitions([topic]):
            return Counter()
        end = self.broker.end_offsets([topic])[topic][0]
        records = self.broker.read(topic, 0, 0, end)
        return Counter(one.key or b"" for one in records if one.value is not None)

    def expected(self) -> Expected:
        """What the views are to be, by what has happened to the source."""
        joined = {id_: (note, self.named.get(of)) for id_, (of, note) in self.of.items()}
        shown = {name: joined if name == "joined" else dict(self.of) for name in VIEWS}
        sets: dict[str, set[str]] = {}
        for id_, (_, note) in self.of.items():
            sets.setdefault(note, set()).add(str(id_))
        return Expected(shown, sets, frozenset(self.parked))

    def shown(self) -> dict[str, dict[int, tuple[Any, ...]]]:
        """As people read the views."""
        view, found = self.views, {}
        cache = [json.loads(doc) for doc in self._cached() if doc]
        found["cache"] = {one["id"]: (one["customer_id"], one["note"]) for one in cache}
        lake = QueryBuilder().register("v", DeltaTable(f"{self.urls.lake}/{view['lake']}"))
        rows = pa.table(lake.execute("select id, customer_id, note from v").read_all()).to_pylist()
        found["lake"] = {one["id"]: (one["customer_id"], one["note"]) for one in rows}
        with psycopg.connect(self.urls.postgres) as conn:
            query = f'select id, customer_id, note from "{view["table"]}"'
            found["table"] = {id_: (of, note) for id_, of, note in conn.execute(query.encode())}
        with opensearchpy.OpenSearch([self.urls.opensearch]) as client:
            hits = client.search(index=view["joined"], body={"size": 10_000})["hits"]["hits"]
        rows = [hit["_source"] for hit in hits]
        found["joined"] = {one["id"]: (one["note"], one["name"]) for one in rows}
        return found

    def _cached(self) -> list[str | None]:
        client = self.redis
        keys = list(client.scan_iter(f"{self.cached}:*", count=5_000))
        pipeline = client.pipeline(transaction=False)
        for key in keys:
            pipeline.hget(key, "doc")
        return list(pipeline.execute())

    @property
    def cached(self) -> str:
        """What the keys of rows in Redis begin with."""
        return str(self.redis.get(f"{self.views['cache']}@live"))

    def sets(self) -> dict[str, set[str]]:
        """The secondary sets in Redis, by note."""
        begin = f"{self.cached}#note:"
        found = self.redis.scan_iter(f"{begin}*", count=5_000)
        return {key.removeprefix(begin): self.redis.smembers(key) for key in found}
