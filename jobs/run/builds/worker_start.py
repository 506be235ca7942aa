"""Spark's Python workers, started while a large table is still being mirrored: the load of a view
over it would wait seconds for them. Workers that nobody needs end by themselves after a minute.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import structlog

from cdc.log_events import LogEvent
from jobs.batch.thresholds import ROWS_HERE
from jobs.run.process_parts import Parts
from jobs.state.mirrors.load_task import ready

_AGAIN_S: Final = 30.0

log = structlog.get_logger("apply")


class WorkerStart:
    """Of one process. ``told`` from one thread at a time."""

    def __init__(self, parts: Parts) -> None:
        kinds = {parts.config.store(view.store).kind for view in parts.config.views.values()}
        self._spark = parts.spark if parts.reaches_tasks and kinds - {"delta"} else None
        self._due = 0.0

    def told(self, _table: str, rows: int) -> None:
        """So many rows of a table were read."""
        if self._spark is not None and rows >= ROWS_HERE and time.monotonic() >= self._due:
            self._due = time.monotonic() + _AGAIN_S
            threading.Thread(target=self._start, name="workers", daemon=True).start()

    def _start(self) -> None:
        assert self._spark is not None, "told has looked"
        workers = self._spark.sparkContext.defaultParallelism
        numbers = self._spark.range(0, workers, 1, workers)
        try:
            numbers.mapInArrow(ready, "id bigint").collect()
        except Exception as error:  # who needs workers is told what is wrong with them
            log.debug(LogEvent.WORKERS_NOT_STARTED, error=type(error).__name__)
