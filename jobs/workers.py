"""Python's workers, started before the first large batch asks for them.

A worker imports Arrow, Kafka's client and what reads a topic before it has a first record: over a
second on two cores, while Spark waits for it. Beside what comes before a batch, as the making of a
table, it costs none of that. Spark ends a worker that has had nothing to do for a minute.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Thread

from pyspark.sql import SparkSession

from jobs.newest import nothing

_LIMIT_S = 10.0


class Workers:
    """Those that a view's first batch is to find."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._thread: Thread | None = None

    def start(self, tasks: int) -> None:
        """One for each of so many tasks that run at a time; by a thread, once for all."""
        if self._thread is None:
            self._thread = Thread(target=self._start, args=(tasks,), name="workers", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Until they are there, some seconds at most: Spark that is stopped meanwhile fills the log
        with what became of their tasks."""
        if self._thread is not None:
            self._thread.join(_LIMIT_S)

    def _start(self, tasks: int) -> None:
        # A batch starts what it does not find, and tells of what goes wrong with it.
        with suppress(Exception):
            self._spark.range(0, tasks, 1, tasks).mapInArrow(nothing, "id bigint").collect()
