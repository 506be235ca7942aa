"""What every store must do with batches: one suite, run on each real server."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DecimalType,
    LongType,
    StringType,
    StructType,
)

from cdc.errors import RetryableError, ViewError
from cdc.lsn import Position
from jobs.sinks.contract import CONTROL_COLUMNS
from stack import servers
from tests.support.events.batches import Feed, delete, upsert, with_control
from tests.support.servers.stores import LSN, OpenFeed, Store, items

ITEMS = items()
BIG_LSN = (1 << 62) + 1  # not a double


def test_rows_are_inserted_updated_deleted_and_come_back(feed: Feed) -> None:
    feed.apply()
    feed.apply(delete(LSN - 1, id=7))  # it is not there
    feed.apply(*(upsert(LSN, i, id=i, name=f"n{i}") for i in (1, 2, 3)))
    feed.apply(upsert(LSN + 8, id=1, name="A"), delete(LSN + 8, 2, id=2), delete(LSN + 8, 3, id=8))
    assert feed.values("name") == {1: "A", 3: "n3"}
    assert feed.rows()[(1,)].position == Position(LSN + 8, 1)
    feed.apply()
    feed.apply(upsert(LSN + 9, id=2, name="again"))
    assert feed.values("name") == {1: "A", 2: "again", 3: "n3"}


def test_what_comes_again_changes_nothing_whatever_batch_brings_it(feed: Feed) -> None:
    """The newest batch under its number, older changes under others, and all of it in another
    process."""
    batches = [
        [upsert(LSN, i, id=i, name=f"first {i}") for i in range(1, 6)],
        [upsert(LSN + 1, id=2, name="second"), delete(LSN + 2, id=3)],
        [upsert(LSN + 3, id=3, name="back"), delete(LSN + 3, 2, id=4)],
    ]
    for changes in batches:
        number = feed.apply(*changes)
    before = feed.rows()
    assert feed.values("name") == {1: "first 1", 2: "second", 3: "back", 5: "first 5"}
    feed.replay(number, *batches[-1])
    assert feed.rows() == before
    feed.apply(*(change for change in batches[0] if change.values["id"] < 3), delete(LSN + 1, id=3))
    assert feed.rows() == before
    feed.restart()
    for changes in batches:
        feed.apply(*changes)
    assert feed.rows() == before


def test_positions_decide_and_a_change_wins_over_a_snapshot_row_of_the_same_lsn(
    feed: Feed,
) -> None:
    """Also where LSNs are no doubles."""
    feed.apply(
        upsert(LSN, 1, id=1, name="first"),
        upsert(LSN, 3, id=2, name="third"),
        upsert(BIG_LSN + 1, id=3, name="later"),
        upsert(LSN + 5, id=4, name="new"),
        upsert(LSN, 1, id=5, name="changed"),
    )
    feed.apply(
        upsert(LSN, 2, id=1, name="second"),
        upsert(LSN, 2, id=2, name="second"),
        upsert(BIG_LSN, id=3, name="earlier"),
        upsert(LSN, id=4, unchanged=("name",)),
        upsert(LSN, 0, id=5, name="snapshot"),
        upsert(LSN, 0, id=6, name="snapshot"),
    )
    feed.apply(upsert(LSN, 9, id=6, name="changed"))
    assert feed.values("name") == {
        1: "second", 2: "third", 3: "later", 4: "new", 5: "changed", 6: "changed",
    }  # fmt: skip
    assert feed.rows()[(3,)].position == Position(BIG_LSN + 1, 1)


WIDE = (
    StructType()
    .add("id", LongType())
    .add("text", StringType())
    .add("data", BinaryType())
    .add("tags", ArrayType(StringType()))
    .add("price", DecimalType(38, 10))
    .add("note", StringType())
)


def test_unchanged_columns_keep_the_stored_value(store: Store, open_feed: OpenFeed) -> None:
    feed = open_feed(store, WIDE)
    large: dict[str, Any] = {
        "text": "gro\u00df \U0001f600 " * 500,
        "data": bytes(range(256)),
        "tags": ["a", None, 'q"'],
        "price": Decimal("12345678901234567890.0123456789"),
    }
    feed.apply(upsert(LSN, id=1, note="before", **large), upsert(LSN, 2, id=2, text="t"))
    kept = tuple(large)
    feed.apply(
        upsert(LSN + 1, id=1, note="after", unchanged=kept),
        upsert(LSN + 1, 2, id=2, text="T", note="n", unchanged=("data", "tags", "price")),
        upsert(LSN + 1, 3, id=3, text="new", note="n"),
    )
    rows = feed.rows()
    assert rows[(1,)].values == {"id": 1, "note": "after", **large}
    assert rows[(2,)].values["text"] == "T"
    assert rows[(3,)].values["text"] == "new"


def test_rows_that_no_store_can_take_are_refused(feed: Feed) -> None:
    """Whose key is null, or that leave out a value which the store does not hold."""
    feed.apply(upsert(LSN, id=1, name="a"))
    with pytest.raises(ViewError, match="a row's key is null"):
        feed.apply(upsert(LSN + 1, name="b"))
    with pytest.raises(ViewError, match=r"1 changed row.*Rebuild the view"):
        feed.apply(upsert(LSN + 1, id=2, unchanged=("name",)), upsert(LSN + 1, id=3, name="c"))


def test_truncate_spares_what_is_newer_also_of_its_own_transaction(feed: Feed) -> None:
    feed.apply(
        upsert(LSN, id=1, name="older"),
        upsert(LSN + 5, 2, id=2, name="older, same commit"),
        upsert(LSN + 5, 4, id=3, name="newer, same commit"),
        upsert(LSN + 6, id=4, name="newer"),
    )
    feed.truncate(Position(LSN + 5, 3))
    assert feed.rows().keys() == {(3,), (4,)}
    feed.apply(upsert(LSN + 7, id=1, name="after"), upsert(LSN + 5, 5, id=2, name="again"))
    names = feed.values("name")
    assert (names[1], names[2]) == ("after", "again")


def test_late_changes_do_not_bring_back_what_was_deleted_or_truncated(
    served: Store, open_feed: OpenFeed
) -> None:
    feed = open_feed(served)
    feed.apply(upsert(LSN, id=1, name="a"), upsert(LSN, 2, id=2, name="b"))
    feed.apply(delete(LSN + 5, id=1), delete(LSN + 5, 2, id=3))
    feed.truncate(Position(LSN + 6, 1))
    feed.restart()
    feed.apply(*(upsert(LSN + 1, i, id=i, name="late") for i in (1, 2, 3)))
    assert feed.rows() == {}


def test_large_batches_are_written_by_the_executors(feed: Feed) -> None:
    feed.apply(upsert(LSN, id=1, name="first"), upsert(LSN + 9, id=2, name="newer"))
    _apply_many(feed, 20_000, LSN + 1)
    names = feed.values("name")
    assert len(names) == 20_000
    assert (names[1], names[2], names[19_999]) == ("name 1", "newer", "name 19999")


def test_a_fault_in_an_executor_keeps_its_class_and_text(feed: Feed) -> None:
    feed.apply(upsert(LSN, id=1, name="first"))
    with pytest.raises(ViewError, match="Rebuild the view"):
        _apply_many(feed, 20_000, LSN + 1, unchanged="'name'")


def _apply_many(feed: Feed, count: int, lsn: int, unchanged: str = "") -> None:
    rows = feed.spark.range(count, numPartitions=2).select(
        "id",
        F.expr("concat('name ', id)").alias("name"),
        F.lit(False).alias(CONTROL_COLUMNS[0]),
        F.lit(lsn).cast("bigint").alias(CONTROL_COLUMNS[1]),
        F.expr("id + 1").alias(CONTROL_COLUMNS[2]),
        F.expr(f"cast(array({unchanged}) as array<string>)").alias(CONTROL_COLUMNS[3]),
        F.current_timestamp().alias(CONTROL_COLUMNS[4]),
    )
    assert rows.columns == with_control(ITEMS).names
    feed.number += 1
    feed.sink.apply(rows, feed.batch(feed.number, count))


def test_a_store_that_is_down_is_named_and_waited_for(
    served: Store, open_feed: OpenFeed, stack_home: Path
) -> None:
    feed, impatient = open_feed(served), open_feed(served, retry_s=0.5)
    feed.apply(upsert(LSN, id=1, name="a"), upsert(LSN, 2, id=2, name="b"))
    servers.kill(stack_home, served.kind)
    try:
        with pytest.raises(RetryableError, match=r"at 127\.0\.0\.1:\S+ does not answer"):
            impatient.apply(upsert(LSN, id=1, name="a"))
        applying = threading.Thread(
            target=feed.apply, args=(upsert(LSN + 1, id=1, name="A"), delete(LSN + 1, 2, id=2))
        )
        applying.start()
    finally:
        servers.start(stack_home, [served.kind])
    applying.join(300)
    assert not applying.is_alive()
    assert feed.values("name") == {1: "A"}
    feed.restart()
    feed.apply(upsert(LSN, id=2, name="b"))
    assert feed.values("name") == {1: "A"}, "a delete was forgotten over the restart"
