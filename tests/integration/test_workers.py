"""Python's workers, which are started before the first large batch of a view asks for them."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from jobs.workers import Workers
from stack.process import kill
from tests.parkings import applied
from tests.waiting import wait_until
from tests.workers import python_workers
from tests.written import PARTITIONS, row, v1

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.bootstraps import Setting


class Refusing:
    """A session that starts nothing, and says so when it may."""

    def __init__(self) -> None:
        self.asked = list[tuple[int, ...]]()
        self.may_answer = threading.Event()

    def range(self, *numbers: int) -> None:
        self.asked.append(numbers)
        assert self.may_answer.wait(60)
        raise RuntimeError("no more processes")


def test_a_worker_is_there_before_a_task_asks_for_it(spark: SparkSession) -> None:
    for worker in python_workers(spark):
        kill(worker)
    workers = Workers(spark)
    workers.start(1)
    workers.wait()
    (there,) = python_workers(spark)

    def told(numbers: Any) -> Any:
        for _ in numbers:
            yield pa.RecordBatch.from_pydict({"pid": [os.getpid()]})

    (found,) = spark.range(0, 1, 1, 1).mapInArrow(told, "pid bigint").collect()
    assert found["pid"] == there.pid


def test_they_are_started_once_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps them from starting is no fault, and is not told."""
    told = list[Any]()
    monkeypatch.setattr("threading.excepthook", told.append)
    session = Refusing()
    workers = Workers(cast(Any, session))
    workers.wait()  # nobody has asked for any
    workers.start(3)
    workers.start(3)
    waiting = threading.Thread(target=workers.wait)
    waiting.start()
    wait_until(lambda: session.asked, "the session to be asked")
    assert waiting.is_alive()
    session.may_answer.set()
    waiting.join(60)
    assert session.asked == [(0, 3, 1, 3)]
    assert not told


def test_only_a_view_that_is_far_behind_has_some_started_and_its_end_waits(
    cached: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, waited = list[int](), list[int]()
    monkeypatch.setattr(Workers, "start", lambda _, tasks: started.append(tasks))
    monkeypatch.setattr(Workers, "wait", lambda _: waited.append(len(started)))
    monkeypatch.setattr("jobs.offsets.MANY_RECORDS", 10)
    log = cached.table.log
    log.write(*(v1(1, n, row(n, "a")) for n in range(1, 11)))
    assert applied(cached) == {}
    assert set(started) == {PARTITIONS}
    assert waited == [len(started)]
    started.clear()
    log.write(*(v1(2, n, row(n, "b"), "u") for n in range(1, 10)))
    assert applied(cached) == {}  # nine are left
    assert not started
