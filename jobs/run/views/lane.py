"""The views of one store, kept in turn on a thread of their own.

A store that is away holds up its own views and no others: their keys stay dirty meanwhile. A view
that cannot go on is tried again from time to time, so that it is kept again as soon as what stopped
it is mended. ``cadence_s`` is the shortest time between two writes of a view: a Delta table has a
commit for each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from cdc.errors import HeadwaterError, RetryableError
from jobs.run.views.view_keeper import Turn
from jobs.spark.faults import translate
from jobs.state.server.connection import Connection, translated

_AGAIN_S: Final = 1.0
"""Between two tries of what passes."""
_MENDED_S: Final = 15.0
"""Between two tries of a view that a fault has stopped."""
_PLANS_S: Final = 10.0
"""Statements are planned anew as often: tables grow, and nobody has analyzed them yet."""
_JOIN_S: Final = 0.05


class Keeper(Protocol):
    """Keeps a view: ``jobs.run.views.view_keeper``."""

    @property
    def name(self) -> str:
        """The view's, for messages."""

    def turn(self, conn: Connection) -> Turn:
        """Write some rows."""

    def close(self) -> None:
        """Release the store."""


class Watcher(Protocol):
    """Hears of turns, on the lane's thread."""

    def kept(self, view: int, turn: Turn) -> None:
        """A turn was made."""

    def failed(self, view: int, error: HeadwaterError) -> None:
        """A turn was not made; it is tried again."""


@dataclass(slots=True)
class _Work:
    keeper: Keeper
    dirty: bool = True
    due: float = 0.0
    served: int = 0
    """The number of its last turn among all of the lane's."""


class Lane:
    """Owns the thread, the session with the state database, and the keepers that it was given, by
    the ids of the views' generations, which are above 0."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Connection],
        cadence_s: float,
        watcher: Watcher,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._connect, self._cadence_s, self._watcher = connect, cadence_s, watcher
        self._clock = clock
        self._work: dict[int, _Work] = {}
        self._changed = threading.Condition()
        self._busy = self._turns = 0
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=f"store-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, view: int, keeper: Keeper) -> None:
        """Keep a view from now on. What is dirty of it is not known yet."""
        with self._changed:
            assert view not in self._work, "a view is kept once"
            self._work[view] = _Work(keeper)
            self._changed.notify_all()

    def remove(self, view: int) -> None:
        """Keep it no more; returns when a turn under way is over. Its store is released."""
        if (keeper := self.detach(view)) is not None:
            keeper.close()

    def detach(self, view: int) -> Keeper | None:
        """Keep it no more, as ``remove``; its keeper, for ``add``. None if it was not kept."""
        with self._changed:
            work = self._work.pop(view, None)
            while self._busy == view:
                self._changed.wait(_JOIN_S)
        return None if work is None else work.keeper

    def wake(self, views: set[int]) -> None:
        """These views have dirty keys."""
        with self._changed:
            for view in views & self._work.keys():
                self._work[view].dirty = True
            self._changed.notify_all()

    def idle(self, view: int) -> bool:
        """Whether no key of a view is dirty, as far as is known here."""
        with self._changed:
            work = self._work.get(view)
            return work is not None and not work.dirty and self._busy != view

    def end(self) -> None:
        """Stop after the turn under way."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        while self._thread.is_alive():
            self._thread.join(_JOIN_S)
        for view in list(self._work):
            self.remove(view)

    def _run(self) -> None:
        conn: Connection | None = None
        planned = 0.0
        while (found := self._next()) is not None:
            view, keeper = found
            try:
                with translated(f"keeping view {keeper.name}"):
                    if conn is None or conn.closed:
                        conn, planned = self._connect(), self._clock()
                    if self._clock() - planned > _PLANS_S:
                        conn.execute(b"discard plans")
                        planned = self._clock()
                    turn = keeper.turn(conn)
            except Exception as error:
                if conn is not None and conn.broken:
                    conn.close()
                self._failed(view, translate(error, keeper.name))
            else:
                self._done(view, turn)
        if conn is not None:
            conn.close()

    def _next(self) -> tuple[int, Keeper] | None:
        """The view whose turn it is, and its keeper; waits for one. None at the end."""
        with self._changed:
            while not self._ending:
                now = self._clock()
                waiting = {view: work for view, work in self._work.items() if work.dirty}
                due = [view for view, work in waiting.items() if work.due <= now]
                if due:
                    view = min(due, key=lambda one: waiting[one].served)
                    return view, self._begun(view)
                next_s = min((work.due for work in waiting.values()), default=None)
                self._changed.wait(None if next_s is None else next_s - now)
        return None

    def _begun(self, view: int) -> Keeper:
        """Its turn begins; the lock is held."""
        work = self._work[view]
        self._turns += 1
        work.dirty, work.served, self._busy = False, self._turns, view
        return work.keeper

    def _done(self, view: int, turn: Turn) -> None:
        self._free(view, turn.more, 0.0 if turn.more else self._cadence_s)
        self._watcher.kept(view, turn)

    def _failed(self, view: int, error: HeadwaterError) -> None:
        self._free(view, True, _AGAIN_S if isinstance(error, RetryableError) else _MENDED_S)
        self._watcher.failed(view, error)

    def _free(self, view: int, dirty: bool, wait_s: float) -> None:
        with self._changed:
            self._busy = 0
            if (work := self._work.get(view)) is not None:
                work.dirty = work.dirty or dirty
                work.due = self._clock() + wait_s
            self._changed.notify_all()
