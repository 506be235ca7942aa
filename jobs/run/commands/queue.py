"""Commands that a process was given, each at work on a thread of its own.

One command at a time is at a view. One that nobody waits for any more is told so: a build ends
then, all else goes on to its end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from cdc.config import View
from cdc.errors import HeadwaterError, RetryableError
from cdc.log_events import LogEvent
from jobs.run.commands.actions import WORK
from jobs.run.commands.work import Help, Work
from jobs.run.process_parts import Parts
from jobs.run.views.view_registry import ViewRegistry
from jobs.spark.faults import trace, translate
from jobs.state.server.connection import Connection, translated
from jobs.state.views.commands import (
    Command,
    end_left,
    fail,
    finish,
    lasts,
    report,
    take,
    waited_for,
)
from jobs.state.views.undeclared_views import undeclared_views

_ASKER_S: Final = 1.0
"""Between two looks whether somebody waits still."""
_GONE_S: Final = 3.0
"""Whoever waits may have to connect again: for so long its lock may be missing."""
_POLL_S: Final = 0.05
ENDED: Final = RetryableError(
    "`headwater apply` ended before the command was done",
    "start it again, then run the command again",
)

log = structlog.get_logger("apply")


@dataclass(slots=True)
class _Order:
    """A command at work. ``said`` is what was last written of it."""

    work: Work
    run: Callable[[Work], dict[str, Any]]
    result: dict[str, Any] = field(default_factory=dict)
    error: HeadwaterError | None = None
    said: tuple[int, int, int] = (0, 0, 0)
    lasting: bool = False
    missing_since: float | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        name = f"order-{self.work.command.id}"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        view = self.work.command.view
        try:
            with translated(f"a command on view {view}"), closing(self.work):
                self.result = self.run(self.work)
        except Exception as error:
            self.error = translate(error, view)
            where = {"trace": found} if (found := trace(error)) else {}
            log.warning(LogEvent.COMMAND_FAILED, view=view, error=str(self.error), **where)


class Orders:
    """Use from the engine's thread."""

    def __init__(
        self,
        parts: Parts,
        views: ViewRegistry,
        help_: Help,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._views, self._help, self._clock = parts, views, help_, clock
        self._running: dict[int, _Order] = {}
        self._looked = 0.0
        self._begun = False

    def conduct(self, conn: Connection) -> None:
        """Take what was asked, write how far the rest is."""
        if not self._begun:
            end_left(conn, ENDED)
            self._begun = True
        if taken := take(conn):
            self._views.follow(conn)  # a view may just have been declared
        for command in taken:
            self._begin(conn, command)
        if not self._running:
            return
        self._look_for_askers(conn)
        for order in list(self._running.values()):
            self._tell(conn, order)

    def close(self, conn: Connection) -> None:
        """End what is at work, as far as it can be ended."""
        for order in self._running.values():
            order.work.withdrawn.set()
        for order in list(self._running.values()):
            while order.thread.is_alive():
                order.thread.join(_POLL_S)
            self._tell(conn, order)

    def _begin(self, conn: Connection, command: Command) -> None:
        log.info(LogEvent.COMMAND_TAKEN, kind=command.kind, view=command.view)
        try:
            entry = self._views.claim(command.view, self._undeclared(command))
        except HeadwaterError as error:
            fail(conn, command.id, error)
            return
        work = Work(command, self._parts, self._views, entry, self._help)
        self._running[command.id] = _Order(work, WORK[command.kind])

    def _undeclared(self, command: Command) -> View | None:
        """What is to be dropped need not be declared any more."""
        if command.kind != "drop":
            return None
        return undeclared_views(self._parts.reload()).get(command.view)

    def _tell(self, conn: Connection, order: _Order) -> None:
        command, steps = order.work.command.id, order.work.steps
        ended = not order.thread.is_alive()
        said = len(steps.lines), steps.rows, steps.expected
        if said != order.said:
            report(conn, command, steps.lines[: said[0]], steps.rows, steps.expected)
            order.said = said
        if order.work.lasting and not order.lasting:
            lasts(conn, command, order.work.lasting)
            order.lasting = True
        if not ended:
            return
        if order.error is not None:
            fail(conn, command, order.error)
        else:
            finish(conn, command, order.result)
        self._views.release(order.work.entry)
        del self._running[command]

    def _look_for_askers(self, conn: Connection) -> None:
        now = self._clock()
        if now - self._looked < _ASKER_S:
            return
        self._looked = now
        there = waited_for(conn, self._running)
        for id_, order in self._running.items():
            if id_ in there:
                order.missing_since = None
            elif order.missing_since is None:
                order.missing_since = now
            elif now - order.missing_since > _GONE_S:
                order.work.withdrawn.set()
