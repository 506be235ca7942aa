"""What is being done with a view, for whoever waits for it, and in the log meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

import structlog

from cdc.log_events import LogEvent

log = structlog.get_logger("apply")
_EVERY_S: Final = 2.0


@dataclass(slots=True)
class RowsLog:
    """Tells in the log how many rows a long step has done: the first time after two seconds of
    it, then once in two seconds."""

    event: LogEvent
    _due: float = field(default_factory=lambda: time.monotonic() + _EVERY_S)

    def tell(self, rows: int, **of: object) -> None:
        """So many rows were done."""
        if (now := time.monotonic()) >= self._due:
            self._due = now + _EVERY_S
            log.info(self.event, rows=rows, **of)


@dataclass(slots=True)
class Steps:
    """Lines, and how many rows the step at work has done, of ``expected`` (0: nobody knows).
    Written by one thread, read by others; those of a ``view`` are in the log, too."""

    view: str = ""
    lines: list[str] = field(default_factory=list)
    rows: int = 0
    expected: int = 0
    _log: RowsLog = field(default_factory=lambda: RowsLog(LogEvent.VIEW_LOADING))

    def step(self, line: str) -> None:
        """Something else is being done from now on."""
        self.rows = self.expected = 0
        self.lines.append(line)
        if self.view:
            log.info(LogEvent.VIEW_BUILD, view=self.view, step=line)
            self._log = RowsLog(LogEvent.VIEW_LOADING)

    def reading(self, rows: int, expected: int = 0) -> None:
        """So many rows were done in this step."""
        self.rows, self.expected = rows, expected
        if self.view:
            self._log.tell(rows, view=self.view)
