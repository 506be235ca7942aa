"""Views that read the clock: their rows change with time alone, so they are computed again at a
cadence, whole, and what differs is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from jobs.run.views.view_entry import ViewEntry
from jobs.state.server.connection import Connection
from jobs.state.views.view_generation import ViewGeneration
from jobs.state.views.whole_recomputation import tick


@dataclass(slots=True)
class ViewClock:
    """``every_s`` is the time between two computations of a view, which begins with one."""

    every_s: float
    clock: Callable[[], float] = time.monotonic
    _due: dict[int, float] = field(default_factory=dict, init=False)

    def follow(self, conn: Connection, entries: Iterable[ViewEntry]) -> None:
        """The same of what a process keeps now; a history has its rows' own times."""
        kept = [one for one in entries if one.kept and not one.declared.history]
        self.tick(conn, [one.live.kept for one in kept if one.live is not None])

    def tick(self, conn: Connection, views: Iterable[ViewGeneration]) -> None:
        """Let those of the views be computed whose time has come."""
        clocked = [view for view in views if view.plan.clock]
        self._due = {view.id: self._due.get(view.id, 0.0) for view in clocked}
        now = self.clock()
        if due := [view for view in clocked if self._due[view.id] <= now]:
            tick(conn, due)
            self._due |= {view.id: now + self.every_s for view in due}
