"""Values that the form of events has nothing for, and that become null: counted, and logged once
for each column."""

from __future__ import annotations

import structlog

from cdc.log_events import LogEvent

log = structlog.get_logger("capture")


class UnheldValues:
    """Of one process. Called with a table, a column, and how many more there are."""

    def __init__(self) -> None:
        self.count = 0
        self._known: set[tuple[str, str]] = set()

    def __call__(self, table: str, column: str, count: int) -> None:
        self.count += count
        if (table, column) not in self._known:
            self._known.add((table, column))
            log.warning(LogEvent.VALUE_BECAME_NULL, table=table, column=column)
