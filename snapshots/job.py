"""A snapshot to be made: what of, where to, how fast, and who hears of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from cdc.config import Kafka, Source
from cdc.errors import HeadwaterError
from cdc.events.envelope import SourceContext
from cdc.source.selection import Table
from cdc.source.slot import ExportedSlot
from snapshots.plan import Bounds


class Observer(Protocol):
    """Hears of what is done, to show it. Tables go by ``schema.table``."""

    def step(self, what: str) -> None:
        """One line: something was done or found."""

    def tables(self, expected: dict[str, int]) -> None:
        """The tables to be read, with the planner's idea of their rows (0: none)."""

    def rows(self, label: str, count: int) -> None:
        """So many more rows of a table were read."""

    def table_read(self, label: str, rows: int) -> None:
        """A table was read whole."""


class Silent:
    """An observer that shows nothing."""

    def step(self, what: str) -> None:
        pass

    def tables(self, expected: dict[str, int]) -> None:
        pass

    def rows(self, label: str, count: int) -> None:
        pass

    def table_read(self, label: str, rows: int) -> None:
        pass


class StoppedError(HeadwaterError):
    """Somebody asked for it: ``what`` is ``pause`` or ``cancel``. What is finished is kept."""

    def __init__(self, snapshot_id: int, what: str) -> None:
        way = f"headwater snapshot resume {snapshot_id}" if what == "pause" else ""
        super().__init__(f"snapshot {snapshot_id} was told to {what}", way)
        self.what = what


@dataclass(frozen=True, slots=True)
class Job:
    """``tables`` lists the tables as they are at present, ``slot`` creates the slot of the next
    round. ``partitions`` has every target topic; ``dirty`` names tables, ``schema.table``, or
    topics that hold records of an earlier time, which a truncate has to end. Limits are those of
    all workers together.

    ``marked``: one worker reads in order, and marks first and last rows as Debezium does.
    ``dead_letters``: rows that are too large go to their topic, which is there.
    """

    source: Source
    kafka: Kafka
    context: SourceContext
    tables: Callable[[], list[Table]]
    topic_of: Callable[[Table], str]
    slot: Callable[[], AbstractContextManager[ExportedSlot]]
    partitions: Mapping[str, int]
    observer: Observer
    dirty: frozenset[str] = frozenset()
    bounds: Bounds = field(default_factory=Bounds)
    workers: int = 1
    rows_s: float = float("inf")
    bytes_s: float = float("inf")
    chunk_mb: float = 64.0
    max_age_s: float = 1800.0
    marked: bool = False
    dead_letters: bool = False
