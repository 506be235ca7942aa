"""``kill -9`` as part of the story: when, of whom, and until when its traces can be seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from demo.counters import Goal, Watch
from demo.freshness import Window
from stack.child_process import Process

DOWN_S = 2.0
_LOOK_S = 0.25


class Surroundings(NamedTuple):
    """What a kill needs to know of the story."""

    watch: Watch
    source_lsn: Callable[[], int]
    tell: Callable[[str], None]


class Kill:
    """Kills a process once ``when()`` is true, starts it again, and waits for it to catch up.

    ``pending`` → ``down`` for two seconds → ``recovering`` until every view in ``views`` has
    applied what was committed up to the restart → ``over``. Call ``step`` often.
    """

    def __init__(
        self, process: Process, when: Callable[[], bool], what: str, views: tuple[str, ...]
    ) -> None:
        self.process = process
        self.state: Literal["pending", "down", "recovering", "over"] = "pending"
        self.window = Window(0.0, float("inf"), views)
        self._when = when
        self._what = what
        self._again = 0.0
        self._target_lsn = 0
        self._goal: Goal | None = None

    @property
    def open(self) -> bool:
        return self.state != "over"

    @property
    def restarted(self) -> bool:
        return self.state in ("recovering", "over")

    def step(self, around: Surroundings) -> None:
        """Do what is due."""
        if self.state == "pending" and self._when():
            self._kill(around)
        elif time.monotonic() < self._again:
            return
        elif self.state == "down":
            self._restart(around)
        elif self.state == "recovering":
            self._again = time.monotonic() + _LOOK_S
            self._goal = self._goal or around.watch.goal(self._target_lsn)
            if self._goal is not None and self._caught_up(around.watch, self._goal):
                self.window = self.window._replace(end=time.time())
                self.state = "over"
                lasted = self.window.end - self.window.start
                around.tell(f"{self.process.name} had caught up {lasted:.1f} s after the kill")

    def _kill(self, around: Surroundings) -> None:
        self.window = self.window._replace(start=time.time())
        pid = self.process.kill()
        self.state, self._again = "down", time.monotonic() + DOWN_S
        around.tell(f"kill -9 {self.process.name} (pid {pid}){self._what}")

    def _restart(self, around: Surroundings) -> None:
        self.process.start()
        self._target_lsn = around.source_lsn()
        self.state = "recovering"
        around.tell(f"{self.process.name} started again (pid {self.process.pid})")

    def _caught_up(self, watch: Watch, goal: Goal) -> bool:
        return all(watch.reached(goal, view) for view in self.window.views)
