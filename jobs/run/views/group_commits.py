"""The thread that commits the groups of a process's views."""

from __future__ import annotations

import threading
from typing import Final

import structlog

from cdc.errors import RetryableError
from cdc.log_events import LogEvent
from cdc.logs import faults_logged
from jobs.run.views.group_offsets import GroupOffsets
from jobs.state.server.connection import translated

_POLL_S: Final = 0.05
_AGAIN_S: Final = 1.0
_COMMITS_PER_S: Final = 20.0
"""Of groups. Whoever waits for a view learns from its group; each commit takes 2 ms of a core."""

log = structlog.get_logger("apply")


class GroupCommits:
    """Owns the thread, so that a group whose coordinator is away, for which Kafka's client tries
    for ten seconds, holds up nothing else. What is reached meanwhile is one commit."""

    def __init__(self, reach: GroupOffsets) -> None:
        self._reach = reach
        self._ending = threading.Event()
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="group-commits", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def raise_fault(self) -> None:
        """What has ended the thread, if something has."""
        if self._fault is not None:
            raise self._fault

    def end(self) -> None:
        """Stop, once the commit under way is over; all are committed once more."""
        self._ending.set()
        while self._thread.is_alive():
            self._thread.join(_POLL_S)  # without a timeout it would hold signals back
        with faults_logged(log, LogEvent.OFFSETS_NOT_COMMITTED):
            self._reach.commit()

    def _run(self) -> None:
        while not self._ending.wait(_POLL_S):
            try:
                with translated("committing offsets"):
                    self._reach.commit(_COMMITS_PER_S)
            except RetryableError as error:
                log.warning(LogEvent.TRIED_AGAIN, what="commit", error=str(error))
                self._ending.wait(_AGAIN_S)
            except Exception as error:  # for the thread that owns the process
                self._fault = error
                return
