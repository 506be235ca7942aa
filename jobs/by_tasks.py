"""A large batch: its tasks read the topic for what is newest, or else Spark's own source does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from cdc.config import Kafka
from cdc.kafka.broker import Offsets
from jobs.applying import Model
from jobs.faults import translate
from jobs.newest import newest_records

_T = TypeVar("_T")
log = structlog.get_logger("apply")


def by_tasks(
    session: SparkSession,
    kafka: Kafka,
    model: Model,
    begin: Offsets,
    end: Offsets,
    of_newest: Callable[[DataFrame], _T],
    of_all: Callable[[], _T],
) -> _T:
    """``of_newest`` of the newest records of each key between offsets; ``of_all`` where tasks could
    not read them."""
    refused = [id_ for id_, version in model.versions.items() if version.refused]
    try:
        return of_newest(newest_records(session, kafka, begin, end, refused))
    except PythonException as error:  # of a task that could not read: not a view's end
        # Spark's own source says what is wrong, if it finds it, too.
        cause = str(translate(error, model.view.name))
        log.warning("batch_read_again", view=model.view.name, cause=cause)
    return of_all()
