"""Views over several tables: real Kafka, events written by hand, a sink that records."""

from __future__ import annotations

import shutil
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc.config import Config
from cdc.errors import HeadwaterError
from cdc.events.codes import PLACEHOLDER
from cdc.protocol.relation import Column, Relation
from jobs.generations.view_state import (
    ViewState,
    generation_id,
    read_document,
    view_directory,
    write_document,
)
from jobs.without_mirrors.views import apply_views
from tests.support.events.events import delete, event, truncate
from tests.support.events.written_topics import CUSTOMERS, INT4, INT8, ORDERS, Log
from tests.support.views.recording_sink import RecordingSink
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jobs.sinks.contract import Batch

WIDE = Relation(
    2, "public", "orders", "d",
    (*ORDERS.columns[:2], Column("total", INT8, -1, False), ORDERS.columns[3],
     Column("extra", INT4, -1, False)), ("id",),
)  # fmt: skip
JOINED = """
    select o.id, o.total, o.note, c.name from orders o left join customers c on c.id = o.customer_id
"""
GROUPED = """
    select c.id, c.name, count(o.id) as orders, sum(o.total) as total
    from customers c join orders o on o.customer_id = c.id group by c.id
"""


class Shop:
    """Two tables, and a view of them."""

    def __init__(self, spark: SparkSession, kafka: str, source: str, state: Path) -> None:
        self.spark, self.source, self.state = spark, source, state
        self.customers = Log(kafka, source, "customers")
        self.orders = Log(kafka, source, "orders")
        self.customers.describe(CUSTOMERS)
        self.orders.describe(ORDERS)
        self.sink = RecordingSink()
        self.declare(JOINED)

    def declare(self, sql: str) -> None:
        self.config = Config.model_validate(
            {
                "source": {"name": self.source, "dsn": "dbname=unused", "tables": ["public.*"]},
                "kafka": {"bootstrap_servers": self.orders.bootstrap},
                "stores": {"memory": {"kind": "redis", "url": "redis://localhost:1/0"}},
                "views": {"v": {"store": "memory", "key": ["id"], "sql": sql}},
                "apply": {"state": str(self.state), "retry_s": 20},
            }
        )

    @property
    def checkpoint(self) -> Path:
        return view_directory(str(self.state), self.source, "v") / "checkpoint"

    def customer(self, lsn: int, id_: int, name: str, op: str = "c") -> None:
        values = {"id": id_, "name": name}
        self.customers.write(event(lsn, 1, values, op, schema_id=CUSTOMERS.schema_id()))

    def order(self, lsn: int, id_: int, customer: int | None, op: str = "c", **more: Any) -> None:
        values = {"id": id_, "customer_id": customer, "total": 10, "note": None} | more
        self.orders.write(event(lsn, 1, values, op, schema_id=ORDERS.schema_id()))

    def apply_now(self) -> dict[str, HeadwaterError]:
        sinks = {"v": self.sink}
        return apply_views(self.spark, self.config, ["v"], threading.Event(), True, sinks)

    def shown(self, *names: str) -> dict[int, tuple[Any, ...]]:
        return {id_: tuple(row[name] for name in names) for id_, row in self.sink.values().items()}

    def shows(self, id_: int, name: str) -> bool:
        return self.shown("name").get(id_) == (name,)


class ConfidingSink(RecordingSink):
    """As Delta's, it tells Spark what it writes by a setting of the session."""

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        rows.sparkSession.conf.set("headwater.written", batch.view)
        super().apply(rows, batch)


@pytest.fixture
def shop(spark: SparkSession, kafka: str, source_name: str, tmp_path: Path) -> Shop:
    return Shop(spark, kafka, source_name, tmp_path)


@pytest.mark.exhaustive
def test_a_row_of_one_table_may_nest_its_values(shop: Shop) -> None:
    shop.declare(
        "select id, json_build_object('total', total, 'note', note) as paid from orders"
        " where total > 0"
    )
    shop.order(1, 10, 1, note="first")
    shop.order(2, 11, 1, total=0)
    assert shop.apply_now() == {}
    assert shop.shown("paid") == {10: ({"total": 10, "note": "first"},)}
    shop.order(3, 10, 1, "u", total=0)
    shop.order(4, 11, 1, "u", total=3)
    shop.order(5, 12, None, total=7)
    assert shop.apply_now() == {}
    assert shop.shown("paid") == {
        11: ({"total": 3, "note": None},),
        12: ({"total": 7, "note": None},),
    }
    shop.orders.write(*delete(6, 1, {"id": 11}, ORDERS.schema_id()))
    assert shop.apply_now() == {}
    assert set(shop.shown("paid")) == {12}


def test_changes_of_either_table_reach_a_joined_view_and_a_sink_s_settings_no_other(
    shop: Shop,
) -> None:
    shop.sink = ConfidingSink()
    shop.customer(1, 1, "Ada")
    shop.order(2, 10, 1, note="first")
    shop.order(3, 11, 2)
    assert shop.apply_now() == {}
    assert shop.shown("name", "note") == {10: ("Ada", "first"), 11: (None, None)}
    shop.customer(4, 1, "Ada L.", "u")
    shop.customer(5, 2, "Bob")
    shop.order(6, 10, 2, "u", note=PLACEHOLDER)
    assert shop.apply_now() == {}
    assert shop.shown("name", "note") == {10: ("Bob", "first"), 11: ("Bob", None)}
    shop.orders.write(*delete(7, 1, {"id": 11}, ORDERS.schema_id()))
    shop.customers.write(truncate(8, 1, CUSTOMERS.schema_id()))
    assert shop.apply_now() == {}
    assert shop.shown("name") == {10: (None,)}
    assert shop.spark.conf.get("headwater.written", "") == ""


def test_groups_follow_their_rows(shop: Shop) -> None:
    shop.declare(GROUPED)
    shop.customer(1, 1, "Ada")
    shop.customer(1, 2, "Bob")
    for id_ in range(10, 14):
        shop.order(2, id_, 1, total=id_)
    assert shop.apply_now() == {}
    assert shop.shown("name", "orders", "total") == {1: ("Ada", 4, 46)}
    shop.order(3, 10, 2, "u", total=5)
    shop.orders.write(*delete(4, 1, {"id": 11}, ORDERS.schema_id()))
    assert shop.apply_now() == {}
    assert shop.shown("name", "orders", "total") == {1: ("Ada", 2, 25), 2: ("Bob", 1, 5)}


@pytest.mark.exhaustive
def test_an_older_checkpoint_changes_nothing(shop: Shop, tmp_path: Path) -> None:
    shop.customer(1, 1, "Ada")
    shop.order(2, 10, 1)
    assert shop.apply_now() == {}
    shutil.copytree(shop.checkpoint, tmp_path / "kept")
    shop.order(3, 10, 2, "u")
    shop.customer(4, 2, "Bob")
    assert shop.apply_now() == {}
    shop.customer(5, 2, "Bobby", "u")
    assert shop.apply_now() == {}
    shutil.rmtree(shop.checkpoint)
    shutil.copytree(tmp_path / "kept", shop.checkpoint)
    shop.order(6, 11, 2)
    assert shop.apply_now() == {}
    assert shop.shown("name") == {10: ("Bobby",), 11: ("Bobby",)}

    directory = shop.checkpoint.parent
    file = ViewState(directory, generation_id(directory) or "").file
    held = read_document(file) or {}
    assert set(held["topic_ids"]) == {shop.customers.topic, shop.orders.topic}
    other = {**held["topic_ids"], shop.orders.topic: "of one that was deleted"}
    write_document(file, {**held, "topic_ids": other})
    failed = shop.apply_now()
    assert f"topic {shop.orders.topic} was recreated" in str(failed["v"])


@pytest.mark.exhaustive
def test_an_older_copy_of_the_whole_state_is_refused(shop: Shop, tmp_path: Path) -> None:
    """What came and went since would stay: nothing in the copy tells of it."""
    shop.order(2, 10, 1)
    assert shop.apply_now() == {}
    shutil.copytree(shop.checkpoint.parent, tmp_path / "kept")
    shop.order(3, 11, 1)
    assert shop.apply_now() == {}
    shutil.rmtree(shop.checkpoint.parent)
    shutil.copytree(tmp_path / "kept", shop.checkpoint.parent)
    shop.orders.write(*delete(4, 1, {"id": 11}, ORDERS.schema_id()))
    for _ in range(2):
        failed = shop.apply_now()
        assert "the state is an older copy" in str(failed["v"])
        assert "headwater view rebuild v" in str(failed["v"])


@pytest.mark.exhaustive
def test_a_running_joined_view_is_fresh_and_takes_wider_columns(shop: Shop) -> None:
    stopping = threading.Event()
    failed: dict[str, HeadwaterError] = {}

    def run() -> None:
        sinks = {"v": shop.sink}
        failed.update(apply_views(shop.spark, shop.config, ["v"], stopping, sinks=sinks))

    applying = threading.Thread(target=run)
    applying.start()
    try:
        for i in range(1, 6):
            shop.customer(2 * i, i, f"c{i}")
            shop.order(2 * i + 1, i, i)
            wait_until(partial(shop.shows, i, f"c{i}"), f"order {i}")
        shop.orders.describe(WIDE)  # ALTER TABLE orders ALTER total TYPE bigint, ADD extra int
        row = {"id": 9, "customer_id": 1, "total": 2**40, "note": None, "extra": 1}
        shop.orders.write(event(20, 1, row, schema_id=WIDE.schema_id()))
        wait_until(lambda: shop.shown("total").get(9) == (2**40,), "a value of the wider type")
    finally:
        stopping.set()
        applying.join(120)
    assert not applying.is_alive()
    assert failed == {}
