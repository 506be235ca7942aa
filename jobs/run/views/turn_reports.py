"""What is told of turns: how far views are, what was written, how fresh it is, and what failed.

Each view has at most one line a second in the log: what was written since the last one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from cdc.errors import HeadwaterError, RetryableError
from cdc.log_events import LogEvent
from jobs.batch.key_sample import LOGGED, spread
from jobs.run.stream.applied_batch import Applied
from jobs.run.views.group_offsets import GroupOffsets
from jobs.run.views.view_keeper import Turn

_LINE_S: Final = 1.0
_SAMPLE: Final = 100
"""So many times, spread over all, are kept of a batch's changes."""
_WAITING: Final = 10_000
"""Of what a store does not hold yet every other one is kept when they are more: it may be away for
days."""

log = structlog.get_logger("apply")


@dataclass(slots=True)
class _Told:
    """What has come of a generation since the last line about it."""

    said: float = 0.0
    turns: int = 0
    rows: int = 0
    parked: int = 0
    seconds: float = 0.0
    waiting: list[tuple[int, int]] = field(default_factory=list)
    """Commit times with their batch, of changes that the store does not hold yet."""
    fresh_ms: list[int] = field(default_factory=list)
    error: HeadwaterError | None = None


class Turns:
    """A ``jobs.run.views.lane.Watcher``. ``name`` gives the view of a generation's id."""

    def __init__(
        self,
        reach: GroupOffsets,
        name: Callable[[int], str],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._reach, self._name, self._clock, self._now = reach, name, clock, now
        self._told: dict[int, _Told] = {}
        self._lock = threading.Lock()

    def batch(self, applied: Applied) -> None:
        """A batch that the generations with these ids have still to write."""
        sample = spread(applied.committed_us, _SAMPLE)
        with self._lock:
            for id_ in applied.views:
                waiting = self._told.setdefault(id_, _Told()).waiting
                waiting += [(applied.progress.batch, at) for at in sample]
                if len(waiting) > _WAITING:
                    del waiting[1::2]  # the oldest one stays

    def kept(self, view: int, turn: Turn) -> None:
        if not self._name(view):
            return  # batches have passed over it: it has not reached what they have
        self._reach.reached(view, turn.reached)
        with self._lock:
            told = self._told.setdefault(view, _Told())
            if told.error is not None:
                log.info(LogEvent.VIEW_GOES_ON, view=self._name(view))
                told.error = None
            now_us = self._now() * 1_000_000
            done = [at for batch, at in told.waiting if batch <= turn.reached]
            told.waiting = [one for one in told.waiting if one[0] > turn.reached]
            told.fresh_ms += [round((now_us - at) / 1000) for at in done]
            told.turns, told.rows = told.turns + 1, told.rows + turn.written
            told.parked += turn.parked
            told.seconds += turn.seconds
            if turn.parked:
                name = self._name(view)
                log.error(LogEvent.KEYS_PARKED, view=name, keys=turn.parked, cause=turn.cause)
            self._say_if_due(view, told)

    def tell(self) -> None:
        """The lines that are due, also of views that have had no turn since."""
        with self._lock:
            for view, told in self._told.items():
                self._say_if_due(view, told)

    def failed(self, view: int, error: HeadwaterError) -> None:
        if not (name := self._name(view)):
            return  # let go in this turn: a table of its has changed, and it is opened anew
        with self._lock:
            told = self._told.setdefault(view, _Told())
            if str(told.error) != str(error):
                if isinstance(error, RetryableError):
                    log.warning(LogEvent.VIEW_INTERRUPTED, view=name, error=str(error))
                else:
                    log.error(LogEvent.VIEW_STOPPED, view=name, error=str(error))
            told.error = error

    def error(self, view: int) -> HeadwaterError | None:
        """Why a generation cannot be written now."""
        with self._lock:
            told = self._told.get(view)
            return None if told is None else told.error

    def errors(self) -> dict[str, HeadwaterError]:
        """Why views cannot be written now."""
        with self._lock:
            return {self._name(id_): one.error for id_, one in self._told.items() if one.error}

    def forget(self, view: int) -> None:
        """A generation that is kept no more."""
        with self._lock:
            self._told.pop(view, None)

    def _say_if_due(self, view: int, told: _Told) -> None:
        if self._clock() - told.said < _LINE_S or not (told.rows or told.parked):
            return
        line: dict[str, object] = {"parked": told.parked} if told.parked else {}
        log.info(
            LogEvent.ROWS_APPLIED,
            view=self._name(view),
            rows=told.rows,
            turns=told.turns,
            seconds=round(told.seconds, 3),
            fresh_ms=spread(told.fresh_ms, LOGGED),
            **line,
        )
        told.said = self._clock()
        told.turns = told.rows = told.parked = 0
        told.seconds, told.fresh_ms = 0.0, []
