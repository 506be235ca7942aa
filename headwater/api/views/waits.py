"""Read your own writes over HTTP: ``headwater.Views``, one for each wait that is under way."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final

from cdc.config import Config
from cdc.errors import UsageError
from headwater.api.problems import ProblemError, unavailable
from headwater.lag.wait_document import document, late
from headwater.view_client import Reached, Views, parsed
from verification.view_positions import NotReachedError, StoppedError

LONGEST_S: Final = 60.0
_PARKED: Final = (NotReachedError, StoppedError)


class Waits:
    """Use from the event loop."""

    def __init__(self, config: Config) -> None:
        self._config, self._most = config, config.serve.max_waits
        self._threads = ThreadPoolExecutor(self._most, "wait")
        self._idle: list[Views] = []
        self._busy = 0

    def close(self) -> None:
        """Those under way end by their own time."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for views in self._idle:
            views.close()

    async def wait(self, view: str, lsn: str, timeout_s: float) -> dict[str, Any]:
        """What the view has reached. Raises ``ProblemError`` where it has not in time, and what
        ``Views.wait`` raises."""
        goal = _lsn(lsn) if lsn else None
        if self._busy >= self._most:
            raise unavailable("too-many-waits", f"{self._most} requests wait already")
        self._busy += 1
        views = self._idle.pop() if self._idle else Views(self._config)
        loop = asyncio.get_running_loop()
        waiting = loop.run_in_executor(self._threads, _wait, views, view, goal, timeout_s)

        def over(_: object) -> None:
            """The thread's end, not the request's, which may be cancelled before."""
            self._busy -= 1
            self._idle.append(views)

        waiting.add_done_callback(over)
        return await asyncio.shield(waiting)


def _wait(views: Views, view: str, lsn: int | None, timeout_s: float) -> dict[str, Any]:
    """On a thread."""
    try:
        reached: Reached = views.wait(view, lsn=lsn, timeout_s=timeout_s)
    except _PARKED as error:
        found = late([view], error.message, views.standings(error.lacking))
        stopped = isinstance(error, StoppedError)
        status = HTTPStatus.CONFLICT if stopped else HTTPStatus.GATEWAY_TIMEOUT
        kind = "view-stopped" if stopped else "not-reached"
        raise ProblemError(status, kind, error.message, error.hint, more=found) from None
    return document([view], reached)


def _lsn(text: str) -> int:
    try:
        return parsed(text)
    except UsageError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "no-lsn", error.message, error.hint) from None
