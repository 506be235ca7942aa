"""What every store must do when columns of a view change: one suite, run on each server."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, cast

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
)

from cdc.errors import ViewError
from tests.support.events.batches import upsert
from tests.support.servers.stores import LSN, OpenFeed, Store, items

ITEMS = items()


def test_columns_can_be_added_midway(store: Store, open_feed: OpenFeed) -> None:
    open_feed(store).apply(upsert(LSN, id=1, name="a"))
    wider = StructType(
        [*ITEMS, StructField("paid", DecimalType(10, 2)), StructField("at", TimestampNTZType())]
    )
    feed = open_feed(store, wider)
    feed.number = 1
    at = datetime(2024, 2, 29, 12, 0, 0, 1)
    feed.apply(upsert(LSN + 1, id=2, name="b", paid=Decimal("1.50"), at=at))
    rows = feed.rows()
    assert rows[(1,)].values == {"id": 1, "name": "a", "paid": None, "at": None}
    assert rows[(2,)].values == {"id": 2, "name": "b", "paid": Decimal("1.50"), "at": at}


def numbers(number: DataType, price: DataType) -> StructType:
    """Of one type each: a column, the elements of an array, a field of the objects in one."""
    line = StructType().add("n", number).add("price", price)
    more = StructType().add("n", number).add("price", price).add("list", ArrayType(number))
    return StructType([*ITEMS, *more.add("lines", ArrayType(line))])


def test_a_wider_type_is_followed_also_in_arrays_and_objects(
    store: Store, open_feed: OpenFeed
) -> None:
    def row(n: int, price: str) -> dict[str, Any]:
        line = {"n": n, "price": Decimal(price)}
        return {"name": "a", **line, "list": [n, None], "lines": [line]}

    narrow, wide = row(1, "1.50"), row(1 << 40, "9999999999.75")
    open_feed(store, numbers(IntegerType(), DecimalType(10, 2))).apply(upsert(LSN, id=1, **narrow))
    for again in (1, 2):  # it stays so
        feed = open_feed(store, numbers(LongType(), DecimalType(12, 2)))
        feed.number = again
        feed.apply(upsert(LSN + again, id=1 + again, **wide))
    found = {key: row.values for (key,), row in feed.rows().items()}
    for key, wanted in ((1, narrow), (2, wide), (3, wide)):
        plain = ("n", "price", "list")
        assert {name: found[key][name] for name in plain} == {name: wanted[name] for name in plain}
        (line,) = cast("list[Any]", found[key]["lines"])
        line = line if isinstance(line, dict) else dict(zip(("n", "price"), line, strict=True))
        assert {name: str(value) for name, value in line.items()} == {
            name: str(value) for name, value in wanted["lines"][0].items()
        }
    with pytest.raises(ViewError, match=r"lines\.element\.n bigint, now int; "):
        open_feed(store, numbers(IntegerType(), DecimalType(10, 2)))


def test_a_view_that_lost_a_column_goes_on(store: Store, open_feed: OpenFeed) -> None:
    open_feed(store).apply(upsert(LSN, id=1, name="a"))
    feed = open_feed(store, StructType().add("id", LongType()))
    feed.number = 1
    feed.apply(upsert(LSN + 1, id=2))
    assert feed.rows().keys() == {(1,), (2,)}


def test_a_changed_type_is_refused_with_what_differs(store: Store, open_feed: OpenFeed) -> None:
    open_feed(store)
    changed = StructType().add("id", LongType()).add("name", IntegerType())
    with pytest.raises(ViewError) as refused:
        open_feed(store, changed)
    assert refused.value.message.endswith(": the store holds name string, now int")


def test_a_changed_key_is_refused(store: Store, open_feed: OpenFeed) -> None:
    open_feed(store)
    with pytest.raises(ViewError, match=r"key is \(id\), the view's is \(id, name\)"):
        open_feed(store, ITEMS, ("id", "name"))
