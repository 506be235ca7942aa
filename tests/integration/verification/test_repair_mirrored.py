"""Single rows of views over several tables set right from their mirrors, ``engine = "delta"``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc.config import Config, Redis
from cdc.kafka.broker import Broker
from jobs.delta_engine.live_view import LiveMirrors
from jobs.generations.view_state import view_directory
from jobs.sinks.stores import open_sink
from jobs.spark.column_types import columns_of
from jobs.without_mirrors.replay.replay import replay
from jobs.without_mirrors.replay.start_position import Beginning
from jobs.without_mirrors.table_descriptions import described, newest
from jobs.without_mirrors.views import apply_views
from tests.support.commands.deployment import Deployment
from tests.support.events.batches import Feed, delete, upsert
from tests.support.servers.stores import Store
from verification.repair.from_mirrors import RepairFromMirrors
from verification.report import Report
from verification.view_verification import MAX_ROUNDS, Verification
from views.parse.definition import parse_view
from views.spark.view import MaintainedView, resolve_maintained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = (
    "create table customers (id int primary key, name text, city text not null)",
    """create table orders (id int, code numeric, at timestamptz, day date, tag bytea,
       customer_id int, total int, primary key (id, code, at, day, tag))""",
    """insert into customers select i, 'customer ' || i, 'city ' || i % 5
       from generate_series(1, 20) i""",
    """insert into orders select i, i * 1.10, '2024-01-01Z'::timestamptz + i * interval '1 h 0.5 s',
       date '2024-02-28' + i, decode(md5(i::text), 'hex'), 1 + i % 25, i
       from generate_series(1, 60) i""",
)
KEYS = {"joined": ("id", "code", "at", "day", "tag"), "grouped": ("city",)}
SQL = {
    "joined": """select o.id, o.code, o.at, o.day, o.tag, o.total, c.name
        from orders o left join customers c on c.id = o.customer_id""",
    "grouped": """select c.city, count(*) as orders, sum(o.total) as total
        from customers c join orders o on o.customer_id = c.id group by c.city""",
}


class Shop:
    """A join of two tables in a store, and groups of it."""

    def __init__(
        self, spark: SparkSession, deployment: Deployment, broker: Broker, store: Store, home: Path
    ) -> None:
        self.spark, self.deployment, self.broker = spark, deployment, broker
        self.names = {kind: f"{deployment.name}_{kind}" for kind in SQL}
        self.config = Config.model_validate(
            {
                "source": {"name": deployment.name, "dsn": deployment.dsn, "tables": ["public.*"]},
                "kafka": {"bootstrap_servers": deployment.bootstrap},
                "stores": {"store": store.model_dump()},
                "views": {
                    name: {"store": "store", "key": KEYS[kind], "sql": SQL[kind]}
                    for kind, name in self.names.items()
                },
                "apply": {"state": str(home / "state"), "retry_s": 30},
            }
        )

    def apply(self) -> None:
        """All that was committed by now."""
        self.deployment.captured()
        names = list(self.names.values())
        failed = apply_views(self.spark, self.config, names, threading.Event(), True)
        assert failed == {}

    def view(self, kind: str) -> MaintainedView:
        definition = parse_view(self.names[kind], "store", KEYS[kind], SQL[kind])
        tables = newest(described(self.broker, self.deployment.name, definition))
        return resolve_maintained(definition, tables)

    def sink(self, kind: str) -> Any:
        view = self.view(kind)
        sink = open_sink(self.config.stores["store"], view.name, self.spark)
        sink.prepare(columns_of(view), view.key)
        return closing(sink)

    def verify(
        self,
        kind: str,
        repair: bool,
        before: Callable[[], None] = lambda: None,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> Report:
        """``before``: what comes between the comparison and each write."""
        view, source = self.view(kind), self.config.source

        def live() -> LiveMirrors:
            before()
            return LiveMirrors(self.spark, self.config, view.name, 1)

        with self.sink(kind) as sink:
            return Verification(
                source.dsn,
                source.name,
                source.publication_name,
                view,
                self.broker,
                sink.scan,
                timeout_s=120,
                limit=10,
                on_step=on_step,
                repair=RepairFromMirrors(view, live) if repair else None,
            ).run()

    def bend(self, kind: str, column: str, other: dict[str, Any]) -> None:
        """One row less, one changed, and one of nobody's: each later than any write of the
        stream's, as a write by hand is to OpenSearch."""
        view = self.view(kind)
        with self.sink(kind) as sink:
            rows = sorted(sink.scan(), key=lambda row: row.key)
            at = max(row.position.commit_lsn for row in rows) + 1
            gone, bent = rows[0].values, rows[1].values
            feed = Feed(self.spark, sink, columns_of(view), view.name)
            feed.apply(delete(at, **{name: gone[name] for name in view.key}))
            feed.apply(upsert(at, **{**bent, column: -1}))
            feed.apply(upsert(at, **{**bent, **other}))

    def positions(self, kind: str) -> dict[Any, Any]:
        with self.sink(kind) as sink:
            return {row.key: row.position for row in sink.scan()}


@pytest.fixture
def shop(
    spark: SparkSession, deployment: Deployment, redis_server: str, tmp_path: Path
) -> Iterator[Shop]:
    deployment.execute(*TABLES)
    deployment.init()
    with deployment.running("capture") as capture, Broker(deployment.bootstrap) as broker:
        deployment.captured(capture)
        cache = Redis(kind="redis", url=redis_server)
        made = Shop(spark, deployment, broker, cache, tmp_path)
        made.apply()
        yield made


@pytest.mark.timeout(900)
def test_rows_of_a_join_and_groups_are_set_right(shop: Shop) -> None:
    """The key has columns that stores write in ways of their own."""
    for kind, column, other in (
        ("joined", "total", {"id": 9000}),
        ("grouped", "orders", {"city": "nowhere"}),
    ):
        assert shop.verify(kind, repair=False).equal
        before = shop.positions(kind)
        shop.bend(kind, column, other)
        found = shop.verify(kind, repair=False)
        assert (found.missing, found.different, found.extra, found.equal) == (1, 1, 1, False)
        mended = shop.verify(kind, repair=True)
        assert (mended.missing, mended.different, mended.extra) == (1, 1, 1)
        assert (mended.repaired, mended.equal, mended.rounds) == (3, True, 2)
        assert (mended.beyond_repair, shop.verify(kind, repair=False).equal) == (0, True)
        now = shop.positions(kind)
        assert now.keys() == before.keys()
        assert sum(now[key] != at for key, at in before.items()) == 2, "no other row is written"

    goes_on(shop)
    rows_that_are_missing_while_others_change(shop)
    a_replay_mends_all_rows(shop)
    a_mirror_that_is_wrong_is_told(shop)


def goes_on(shop: Shop) -> None:
    """What the stream brings of repaired rows is newer, also what came during the repair."""
    shop.bend("joined", "total", {"id": 9000})

    def meanwhile() -> None:
        shop.deployment.execute(
            "update orders set total = total + 1 where id < 10",
            "delete from orders where id = 1",
            "update customers set city = 'new city', name = 'new' where id < 5",
        )
        shop.apply()

    mended = shop.verify("joined", repair=True, before=meanwhile)
    assert (mended.repaired, mended.equal) == (3, True)
    shop.deployment.execute(
        "update orders set total = total + 1", "delete from orders where id = 3"
    )
    shop.apply()
    for kind in SQL:
        assert shop.verify(kind, repair=False).equal


def rows_that_are_missing_while_others_change(shop: Shop) -> None:
    """Whether a change is of such a row its key does not say."""
    shop.bend("grouped", "orders", {"city": "nowhere"})
    compared = 0

    def meanwhile(step: str) -> None:
        nonlocal compared
        if step == "reading the view":
            compared += 1
            shop.deployment.execute("update customers set name = name || '.' where id = 20")
            shop.apply()

    mended = shop.verify("grouped", repair=True, on_step=meanwhile)
    assert (mended.equal, mended.undecided, mended.beyond_repair) == (True, 0, 0)
    assert compared == mended.rounds < MAX_ROUNDS
    assert shop.verify("grouped", repair=False).equal


def a_replay_mends_all_rows(shop: Shop) -> None:
    shop.bend("joined", "total", {"id": 9000})
    shop.bend("grouped", "orders", {"city": "nowhere"})
    shop.deployment.execute("insert into customers values (500, 'newer', 'than both')")
    shop.deployment.captured()
    for name in shop.names.values():
        replay(shop.config, shop.broker, name, "beginning", Beginning())
    shop.apply()
    for kind in SQL:
        assert shop.verify(kind, repair=False).equal


def a_mirror_that_is_wrong_is_told(shop: Shop) -> None:
    directory = view_directory(shop.config.apply.state, shop.deployment.name, shop.names["joined"])
    DeltaTable(directory / "mirrors" / "public.customers").delete("id = 7")
    shop.deployment.execute("update orders set total = 0 where customer_id = 7")
    shop.apply()
    shop.bend("joined", "total", {"id": 9000})
    report = shop.verify("joined", repair=True)
    wrong = report.wrong - report.repaired
    assert (wrong, report.beyond_repair, report.rounds) == (3, 3, 2)
    assert report.repaired == 3
