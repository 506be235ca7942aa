"""Setting right the rows of a view that differ, and no others.

What the source has at L is read as a snapshot's events and goes through the view's SQL as the
stream's does; what it does not have is deleted as of L. That is true of every row but those that
the stream has brought something newer of since, and those are left as they are: they are looked at
again, as all that was repaired is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, Protocol

from cdc.config import Source
from cdc.kafka.broker import Broker, Offsets
from jobs.without_mirrors.replay.repair import writable
from verification.events import KeyedEvent, SourceEvents
from verification.source_rows import SourceSnapshot
from verification.topic_keys import touched_keys
from views.spark.resolution import ResolvedView
from views.table_versions import TableVersion

PART_ROWS: Final = 50_000
"""Written together, for as long the stream is held."""
_PART_BYTES: Final = 64 << 20


class Writable(Protocol):
    """A view whose stream can be held meanwhile, as ``LiveView`` is."""

    def held(self) -> AbstractContextManager[Offsets]:
        """Nobody else writes it until the block ends; gives what it has applied."""

    def write(
        self,
        lsn: int,
        version: TableVersion,
        events: Sequence[tuple[bytes, bytes]],
        gone: Sequence[Mapping[str, object]],
    ) -> None:
        """Make rows what they were at ``lsn``."""


class Repair(Protocol):
    """How the rows of one view are set right."""

    def write(
        self,
        source: SourceSnapshot,
        present: Collection[bytes],
        extra: Mapping[bytes, tuple[object, ...]],
        undecided: Collection[bytes],
        before: Offsets,
    ) -> set[bytes]:
        """Make the rows of ``present`` what ``source`` has, and those of ``extra`` gone; those that
        it can do no more for, which are left as they are.

        The view lacks the rows of ``undecided`` as well, but they may have been deleted since: they
        may be made what the view's own state says, and not what ``source`` has.

        Keys are packed, those of ``extra`` with the key as it is stored. ``before`` is where
        Kafka's topics ended before the source's LSN was taken. Raises what the source, Kafka and
        the store raise; what was written stays, and stays right.
        """


class RepairFromSource:
    """A ``Repair`` of a view of one table. ``settings`` is the configuration's source; ``live`` is
    asked when there is need; ``versions`` are those of the view's table."""

    def __init__(
        self,
        settings: Source,
        view: ResolvedView,
        broker: Broker,
        live: Callable[[], Writable],
        versions: Collection[TableVersion] = (),
    ) -> None:
        self._settings, self._view, self._broker, self._live = settings, view, broker, live
        self._versions = versions

    def write(
        self,
        source: SourceSnapshot,
        present: Collection[bytes],
        extra: Mapping[bytes, tuple[object, ...]],
        undecided: Collection[bytes],  # noqa: ARG002
        before: Offsets,
    ) -> set[bytes]:
        if not present and not extra:
            return set()
        view = self._view
        rows, live = SourceEvents(source, view, self._settings), self._live()
        for events in _parts(rows.of(present)):
            with live.held() as applied:
                touched = touched_keys(self._broker, view, before, applied, self._versions)
                if touched is not None:
                    fresh = [event.record for event in events if event.key not in touched]
                    live.write(source.lsn, rows.version, fresh, ())
        # A key that stands twice is extra once: to delete it would take its row as well.
        there = {row.key for row in source.rows_of(sorted(extra))}
        wrong = iter(sorted(extra.keys() - there))
        while some := list(islice(wrong, PART_ROWS)):
            with live.held() as applied:
                touched = touched_keys(self._broker, view, before, applied, self._versions)
                if touched is not None:
                    left = (extra[key] for key in some if key not in touched)
                    named = (dict(zip(view.key, key, strict=True)) for key in left)
                    gone = [key for key in named if writable(view, key)]
                    live.write(source.lsn, rows.version, (), gone)
        return set()


def _parts(blocks: Iterable[list[KeyedEvent]]) -> Iterator[list[KeyedEvent]]:
    """What is written together: for as long the stream is held."""
    part: list[KeyedEvent] = []
    size = 0
    for block in blocks:
        part += block
        size += sum(len(event.record[1]) for event in block)
        if len(part) >= PART_ROWS or size >= _PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
