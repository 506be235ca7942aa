"""When the files of a Delta table are looked after: between batches, by the one writer there is.

Compaction joins the small files that batches leave, vacuum deletes those that no version needs any
more. Neither is needed for what the table says, so neither may end a view: what fails is logged,
and tried again the next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from cdc.log_events import LogEvent

VACUUM_S = 24 * 3600.0
"""A vacuum lists every file there is: once a day is enough, and the first batches of a process."""

log = structlog.get_logger("apply")


@dataclass(slots=True)
class Upkeep:
    """Of one table. ``every`` so many batches it is looked at; 0: never.

    ``compact`` does what there is to do and returns how many files it left fewer; ``vacuum``
    deletes. Both may raise anything.
    """

    view: str
    table: str
    every: int
    compact: Callable[[], int]
    vacuum: Callable[[], None]
    vacuum_s: float = VACUUM_S
    clock: Callable[[], float] = time.monotonic
    _batches: int = field(default=0, init=False)
    _vacuumed: float | None = field(default=None, init=False)

    def after_batch(self) -> None:
        """Count a batch that is applied; never raises."""
        self._batches += 1
        if not self.every or self._batches % self.every:
            return
        began = self.clock()
        try:
            fewer = self.compact()
            if fewer > 0:
                self._tell(LogEvent.TABLE_COMPACTED, began, fewer=fewer)
            began = self.clock()
            if self._vacuumed is None or began - self._vacuumed >= self.vacuum_s:
                self.vacuum()
                self._vacuumed = began
                self._tell(LogEvent.TABLE_VACUUMED, began)
        except Exception as error:  # the batch is applied, whatever becomes of its files
            log.warning(
                LogEvent.UPKEEP_FAILED, view=self.view, table=self.table, cause=type(error).__name__
            )

    def _tell(self, event: LogEvent, began: float, **facts: int) -> None:
        seconds = round(self.clock() - began, 3)
        log.info(event, view=self.view, table=self.table, seconds=seconds, **facts)
