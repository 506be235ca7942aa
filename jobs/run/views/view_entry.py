"""One view of a process by its name: what is kept of it, and when it is tried again."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from cdc.config import View
from cdc.errors import HeadwaterError, RetryableError
from cdc.log_events import LogEvent
from jobs.generations.view_locks import turn
from jobs.run.builds.builder import Generation
from jobs.run.builds.view_build import ViewBuild
from jobs.spark.faults import trace, translate
from jobs.state.server.connection import ours

_AGAIN_S: Final = 1.0
"""Between two tries of what passes."""
_MENDED_S: Final = 10.0
"""Between two tries of a view that a fault has stopped, and twice as long each time."""
_LONGEST_S: Final = 300.0

log = structlog.get_logger("apply")


@dataclass(slots=True)
class ViewEntry:
    """What readers see of a view, what is built of it, why it cannot be kept (``error``), and why
    its last build beside what is live was not shown (``refused``).

    ``seen`` is the id of the generation that readers see, also while ``live`` is None because it
    cannot be kept. ``kept``: it has a keeper; ``missed``: batches have passed over it.
    ``ordered``: a command is at the view, which alone changes it meanwhile. ``waits``: it is not
    built before a command says so. ``told``: what is written of faults, of what is live and of
    builds. ``since`` and ``due`` are times of a monotonic clock: of its first failure in a row, and
    of its next try.
    """

    name: str
    declared: View
    live: Generation | None = None
    seen: int | None = None
    kept: bool = False
    missed: bool = False
    build: ViewBuild | None = None
    error: HeadwaterError | None = None
    refused: HeadwaterError | None = None
    told: tuple[str, str] | None = None
    tries: int = 0
    since: float = 0.0
    due: float = 0.0
    ordered: bool = False
    waits: bool = False
    is_held: bool = False
    held: ExitStack = field(default_factory=ExitStack)

    def hold(self, directory: Path, wait_s: float) -> None:
        """Keep other processes away from its place in the store, until ``held`` is closed."""
        if not self.is_held:
            self.held.enter_context(turn(directory, "stream", wait_s))
            self.is_held = True

    def failed(self, error: Exception, now: float) -> None:
        """It cannot be kept now, and is tried again later."""
        fault = translate(ours(error, f"keeping view {self.name}"), self.name)
        wait_s = _AGAIN_S
        if not isinstance(fault, RetryableError):
            wait_s = min(_MENDED_S * 2**self.tries, _LONGEST_S)
            self.tries += 1
        if self.error is None:
            self.since = now
        if str(self.error) != str(fault):
            if isinstance(fault, RetryableError):
                log.warning(LogEvent.VIEW_INTERRUPTED, view=self.name, error=str(fault))
            else:
                where = {"trace": found} if (found := trace(error)) else {}
                log.error(LogEvent.VIEW_STOPPED, view=self.name, error=str(fault), **where)
        self.error, self.due = fault, now + wait_s
