"""Random histories of two tables, and their join, on a real Kafka."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc.events.codes import PLACEHOLDER
from tests.integration.jobs.delta_engine.test_apply_joins import Shop
from tests.support.events.events import delete, event, truncate
from tests.support.events.written_topics import CUSTOMERS, ORDERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = ("total", "note", "name")
SEED = 1


@pytest.fixture
def shop(spark: SparkSession, kafka: str, source_name: str, tmp_path: Path) -> Shop:
    return Shop(spark, kafka, source_name, tmp_path)


def test_a_random_history_of_two_tables_comes_to_their_join(shop: Shop) -> None:
    """Inserts, updates that leave a value out, deletes, TRUNCATE, and records that come twice."""
    history = _History(shop, random.Random(SEED))
    for batch in range(2):
        for _ in range(40):
            history.step(gaps=batch > 0)
        assert shop.apply_now() == {}
        assert shop.shown(*SHOWN) == history.joined(), f"batch {batch}"


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
