"""Large batches of views over several tables, whose topics are read one by one, on a real Kafka:
they come to what others come to."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from cdc.events.codes import PLACEHOLDER
from tests.integration.jobs.delta_engine.test_apply_joins import Shop
from tests.support.events.events import delete, event, truncate
from tests.support.events.written_topics import CUSTOMERS, ORDERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = ("total", "note", "name")
SEED = 1


class Large:
    """Every batch is taken for a large one, or none is."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self._patched = patched
        self(True)

    def __call__(self, large: bool) -> None:
        self._patched.setattr(
            "jobs.delta_engine.batch_records.CACHED_RECORDS", 0 if large else 20_000
        )


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Large:
    return Large(monkeypatch)


@pytest.fixture
def shop(spark: SparkSession, kafka: str, source_name: str, tmp_path: Path) -> Shop:
    return Shop(spark, kafka, source_name, tmp_path / "large")


def test_topics_that_are_read_one_by_one_come_to_what_all_come_to(
    shop: Shop, large: Large, tmp_path: Path
) -> None:
    """Inserts, updates that leave a value out, deletes, TRUNCATE, and records that come twice."""
    other = Shop(shop.spark, shop.orders.bootstrap, shop.source, tmp_path / "other")
    chance = random.Random(SEED)
    history = _History(shop, chance)
    for batch in range(2):
        for _ in range(40):
            history.step(gaps=batch > 0)
        large(True)
        assert shop.apply_now() == {}
        large(False)
        assert other.apply_now() == {}
        assert shop.shown(*SHOWN) == other.shown(*SHOWN) == history.joined(), f"batch {batch}"


@pytest.mark.usefixtures("large")
def test_an_event_that_cannot_be_applied_is_parked_and_the_rest_flows(shop: Shop) -> None:
    shop.customer(1, 1, "Ada")
    shop.order(2, 10, 1)
    assert shop.apply_now() == {}
    shop.orders.write((b'{"id":9}', b"not ours"))
    shop.order(3, 10, 1, "u", total=11)
    shop.order(4, 11, 1, "u", note=PLACEHOLDER)  # whose note nobody has
    shop.order(5, 11, 1, "u", note="later")
    shop.customer(6, 1, "Ada L.", "u")
    with capture_logs() as said:
        assert shop.apply_now() == {}
    assert shop.shown(*SHOWN) == {10: (11, None, "Ada L."), 11: (10, "later", "Ada L.")}
    assert [line["record"] for line in said if line["event"] == "keys_parked"]


class _History:
    """Random changes of both tables, in the order of their commits, and what the rows are then."""

    def __init__(self, shop: Shop, chance: random.Random) -> None:
        self._shop, self._chance, self._lsn = shop, chance, 0
        self._orders: dict[int, dict[str, Any]] = {}
        self._customers: dict[int, str] = {}

    def joined(self) -> dict[int, tuple[Any, ...]]:
        """The view, as it is to be."""
        return {
            id_: (one["total"], one["note"], self._customers.get(one["customer_id"]))
            for id_, one in self._orders.items()
        }

    def step(self, gaps: bool) -> None:
        """The next commit, or the newest one of a key once more."""
        self._lsn += 1
        kind = self._chance.random()
        if kind < 0.35:
            self._customer()
        elif kind < 0.4:
            self._orders.clear()
            self._shop.orders.write(truncate(self._lsn, 1, ORDERS.schema_id()))
        else:
            self._order(self._chance.randrange(10, 25), gaps)

    def _customer(self) -> None:
        id_, name = self._chance.randrange(5), f"name {self._lsn}"
        if self._customers.pop(id_, None) is not None and self._chance.random() < 0.2:
            gone = delete(self._lsn, 1, {"id": id_}, CUSTOMERS.schema_id())
            self._shop.customers.write(*gone)
            return
        record = event(
            self._lsn, 1, {"id": id_, "name": name}, "u", schema_id=CUSTOMERS.schema_id()
        )
        self._customers[id_] = name
        self._shop.customers.write(*[record] * self._chance.randrange(1, 3))

    def _order(self, id_: int, gaps: bool) -> None:
        if id_ in self._orders and self._chance.random() < 0.2:
            del self._orders[id_]
            self._shop.orders.write(*delete(self._lsn, 1, {"id": id_}, ORDERS.schema_id()))
            return
        known = self._orders.get(id_)
        note = self._chance.choice(["a", "\u00df\n", None])
        row = {
            "id": id_,
            "customer_id": self._chance.randrange(6),
            "total": self._lsn,
            "note": note,
        }
        sent = row
        if gaps and known is not None:
            row, sent = row | {"note": known["note"]}, row | {"note": PLACEHOLDER}
        self._orders[id_] = row
        op = "c" if known is None else "u"
        record = event(self._lsn, 1, sent, op, schema_id=ORDERS.schema_id())
        self._shop.orders.write(*[record] * self._chance.randrange(1, 3))
