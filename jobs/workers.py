"""Python's workers, started before the first large batch asks for them.

A worker imports Arrow, Kafka's client and what reads a topic before it has a first record: over a
second on two cores, while Spark waits for it. Beside what comes before a batch, as the making of a
table, it costs none of that. Spark ends a worker that has had nothing to do for a minute.
"""

from __future__ import annotations

from threading import Thread

import structlog
from pyspark.sql import SparkSession

from jobs.newest import nothing

log = structlog.get_logger("apply")


def start_workers(spark: SparkSession) -> Thread:
    """One for each task that can run at a time; on a thread of its own, which nobody has to wait
    for. What goes wrong is no fault: batches start what they need."""
    thread = Thread(target=_start, args=(spark,), name="workers", daemon=True)
    thread.start()
    return thread


def _start(spark: SparkSession) -> None:
    tasks = spark.sparkContext.defaultParallelism
    try:
        spark.range(0, tasks, 1, tasks).mapInArrow(nothing, "id bigint").collect()
    except Exception as error:
        log.debug("workers_not_started", cause=str(error))
