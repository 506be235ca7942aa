"""Generations of a view in each store: filled apart, shown at once, left and come back to."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.config import View as Declared
from cdc.errors import SinkError, ViewError
from jobs.sinks.contract import Generations
from jobs.sinks.stores import open_generations, open_sink
from tests.support.events.batches import Feed, batch_rows, delete, upsert
from tests.support.servers.stores import KINDS, LSN, Store, items
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITEMS = items()
KEY = ("id",)
ROWS = 200


class View:
    """The test's view in one store."""

    def __init__(self, spark: SparkSession, store: Store, name: str) -> None:
        self.spark, self.store, self.name = spark, store, name
        self.generations: Generations = open_generations(store, name, spark)
        self.read = KINDS[store.kind].reader(spark, store, name)

    def load(self, number: int, name: str, rows: int = ROWS) -> None:
        changes = (upsert(LSN, 0, id=i, name=name) for i in range(rows))
        frame = batch_rows(self.spark, ITEMS, changes)
        self.generations.load(number, frame, ITEMS, KEY)

    def feed(self, number: int | None = None) -> Feed:
        sink = open_sink(self.store, self.name, self.spark, 60.0, number)
        sink.prepare(ITEMS, KEY)
        feed = Feed(self.spark, sink, ITEMS, self.name)
        feed.generation = uuid.uuid4().hex
        return feed

    def leave(self, to: int, mark: str = "") -> str:
        """Switch; the mark of the generation that was live."""
        live = self.generations.live()
        self.generations.switch(to, mark)
        return live.mark if live else ""


@pytest.fixture
def view(spark: SparkSession, store: Store, source_name: str) -> Iterator[View]:
    made = View(spark, store, source_name)
    yield made
    made.generations.close()


def test_a_generation_is_unseen_until_it_is_switched_to_and_can_be_come_back_to(
    view: View, tmp_path: Path
) -> None:
    """And is dropped without a trace, whether it was ever shown or not."""
    assert view.generations.live() is None
    view.load(1, "first")
    assert view.generations.live() is None
    view.generations.switch(1)
    view.generations.switch(1)
    assert view.read() == {"first": ROWS}
    view.feed(1).apply(upsert(LSN + 8, id=1, name="changed"))
    view.load(2, "abandoned")
    view.generations.drop(2)
    assert view.read() == {"first": ROWS - 1, "changed": 1}
    view.load(2, "abandoned")
    view.load(2, "second", ROWS - 10)
    view.feed(2).apply(upsert(LSN + 8, id=7, name="streamed"))
    assert view.read() == {"first": ROWS - 1, "changed": 1}
    assert set(view.feed().values("name").values()) == {"first", "changed"}
    mark = view.leave(2)
    assert view.read() == {"second": ROWS - 11, "streamed": 1}
    assert set(view.feed().values("name").values()) == {"second", "streamed"}
    view.feed(2).apply(upsert(LSN + 16, id=2, name="later"))
    back = view.leave(1, mark)
    assert view.read() == {"first": ROWS - 1, "changed": 1}
    view.feed(1).apply(upsert(LSN + 24, id=5, name="on"))
    assert view.read() == {"first": ROWS - 2, "changed": 1, "on": 1}
    view.leave(2, back)
    view.generations.drop(1)
    assert view.read() == {"second": ROWS - 12, "streamed": 1, "later": 1}
    view.generations.drop(2)
    assert view.generations.live() is None
    assert not KINDS[view.store.kind].left_over(view.store, view.name, tmp_path)


def test_a_view_that_apply_made_is_the_first_generation_and_the_next_takes_no_older_change(
    view: View,
) -> None:
    view.feed().apply(*(upsert(LSN, i, id=i, name="first") for i in range(ROWS)))
    live = view.generations.live()
    assert live is not None
    assert live.number == 1
    view.load(2, "loaded")
    view.feed(2).apply(
        upsert(LSN, 1, id=1, name="newer"),
        upsert(LSN - 8, id=2, name="older"),
        delete(LSN + 8, id=3),
        delete(LSN - 8, id=4),
    )
    view.generations.switch(2)
    assert view.read() == {"loaded": ROWS - 2, "newer": 1}


@pytest.mark.parametrize(
    ("store", "apart"), [("opensearch", ()), ("delta", ()), ("delta", ("id",))], indirect=["store"]
)
def test_two_that_make_a_view_at_once_both_find_it(view: View, apart: tuple[str, ...]) -> None:
    """A Delta table whose files are told apart by a column is made by Spark."""
    declared = Declared(store="s", key=KEY, sql="select 1", partition_by=apart)
    begin = threading.Barrier(2)

    def made() -> None:
        with closing(open_sink(view.store, view.name, view.spark, 60.0, None, declared)) as sink:
            begin.wait()
            sink.prepare(ITEMS, KEY)

    with ThreadPoolExecutor(2) as both:
        for one in [both.submit(made) for _ in range(2)]:
            one.result()
    view.feed().apply(*(upsert(LSN, i, id=i, name="first") for i in range(3)))
    assert view.read() == {"first": 3}


@pytest.mark.parametrize(
    ("store", "change"),
    [
        ("opensearch", str.upper),
        *((store, "{}-1".format) for store in KINDS),
        *(
            pytest.param(store, str.upper, marks=pytest.mark.exhaustive)
            for store in KINDS
            if store != "opensearch"
        ),
    ],
    indirect=["store"],
)
def test_a_view_of_a_like_name_takes_nothing_of_it(
    view: View, change: Callable[[str], str]
) -> None:
    """OpenSearch has small letters only, and calls the first index of ``a`` as view ``a-1``."""
    view.load(1, "first")
    view.leave(1)
    other = View(view.spark, view.store, change(view.name))
    tries: list[Callable[[], object]] = [
        lambda: other.load(1, "other"),
        lambda: other.generations.switch(1),
        lambda: other.feed(1).apply(upsert(LSN + 8, id=1, name="other")),
        lambda: other.feed().apply(upsert(LSN + 8, id=1, name="other")),
        lambda: other.generations.drop(1),
    ]
    for attempt in tries:
        with suppress(ViewError, SinkError):
            attempt()
        assert view.read() == {"first": ROWS}
    view.leave(1)
    view.feed().apply(upsert(LSN + 8, id=1, name="streamed"))
    assert view.read() == {"first": ROWS - 1, "streamed": 1}
    other.generations.close()


def test_constant_readers_see_one_whole_generation_or_the_other(view: View) -> None:
    view.load(1, "1")
    view.leave(1)
    seen: list[Counter[str]] = []
    faults: list[Exception] = []
    done = threading.Event()

    def keep_reading() -> None:
        try:
            while not done.wait(0.05):
                seen.append(view.read())
        except Exception as error:
            faults.append(error)

    def reached(name: str) -> bool:
        return bool(faults) or name in seen[-1]

    threads = [threading.Thread(target=keep_reading) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in (2, 3):
            view.load(number, str(number))
            view.leave(number)
            if number > 2:
                view.generations.drop(number - 2)
            wait_until(partial(reached, str(number)), f"readers of {number}")
    finally:
        done.set()
        for thread in threads:
            thread.join(60)
    assert not faults
    assert all(len(counted) == 1 and counted.total() == ROWS for counted in seen), seen[-1]
    assert {next(iter(counted)) for counted in seen} >= {"1", "3"}
