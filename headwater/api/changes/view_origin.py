"""A view whose changes are served, as what a stream is of: rows and log are in the state database,
where ``headwater apply`` writes them.

Nothing but apply writes them: while it is away nothing changes, and streams that have begun wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final, TypeVar

from cdc.config import Config
from cdc.errors import RetryableError
from headwater.api.changes.log_reader import Log
from headwater.api.changes.origin import Reader
from headwater.api.changes.ring import Entry
from headwater.api.changes.view_log import (
    PARTITION,
    entries_of,
    log_of,
    rebuilt,
    refuse,
    relation_of,
    row_event,
)
from headwater.api.spool.table_read import Receiver
from jobs.state.feeds.feed_reader import (
    FeedState,
    feed_session,
    read_changes_from,
    read_feed,
    read_rows,
)
from jobs.state.server.connection import Connection

_POLL_S: Final = 0.05
"""One look for all clients of a view; it costs the state database some 0.1 ms."""
_AWAY_S: Final = 1.0
"""So long one that is away is not asked again: to find that it is may take seconds."""
_THREADS: Final = 2
Found = TypeVar("Found")


class StateReads:
    """One session with the state database for all that is short. Use from any thread, but
    ``feed`` from the event loop: it has threads of its own, so that nothing else waits for them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._threads = ThreadPoolExecutor(_THREADS, "view changes")
        self._lock = threading.Lock()
        self._away: tuple[float, RetryableError] | None = None
        self._session = ExitStack()
        self._conn: Connection | None = None

    def ask(self, question: Callable[[Connection], Found]) -> Found:
        """Raises ``RetryableError`` where the state database is away."""
        with self._lock:
            if self._away is not None and time.monotonic() < self._away[0]:
                error = self._away[1]
                raise RetryableError(error.message, error.hint)
            try:
                if self._conn is None or self._conn.closed:
                    self._session.close()
                    self._conn = self._session.enter_context(feed_session(self.config))
                return question(self._conn)
            except BaseException as error:
                if isinstance(error, RetryableError):
                    self._away = time.monotonic() + _AWAY_S, error
                self._conn = None
                self._session.close()
                raise

    async def feed(self, view: str) -> FeedState | None:
        """What readers of a view see has such a feed; None without."""
        return await self.asked(lambda conn: read_feed(conn, view))

    async def asked(self, question: Callable[[Connection], Found]) -> Found:
        """As ``ask``, for the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.ask, question)

    def close(self) -> None:
        """A question under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._lock.acquire(timeout=1.0):
            self._session.close()
            self._lock.release()


class ViewOrigin:
    """The feed of one generation of a view."""

    overlaps = False

    def __init__(self, reads: StateReads, state: FeedState) -> None:
        self._reads, self._state = reads, state
        self.label = f"view {state.view}"
        self.relation = relation_of(state)

    async def now(self, place: Sequence[int] = ()) -> Log:
        view, epoch = self._state.view, self._state.epoch
        found = await self._reads.feed(view)
        if found is None or found.epoch != epoch:
            raise rebuilt(view)
        log = log_of(found)
        if place and (len(place) != 1 or place[PARTITION] != log.end[PARTITION]):
            log.refuse(epoch, place)
            number = place[PARTITION]
            refuse(view, await self._reads.asked(
                lambda conn: read_changes_from(conn, found.view_id, number, 1)
            ), epoch, number)  # fmt: skip
        return log

    def reader(self) -> Reader:
        return ViewReader(self._reads, self._state)

    def snapshot(self, receiver: Receiver, going_on: Callable[[], None]) -> Log:
        view = self._state.view

        def take(rows: Sequence[tuple[str, str, int, int]]) -> None:
            going_on()
            events = [row_event(view, *row) for row in rows]
            receiver.rows([key for key, _ in events], [value for _, value in events])

        def begin(state: FeedState) -> None:
            if state.epoch != self._state.epoch:  # it may be of tables that nobody was asked about
                raise rebuilt(view)
            receiver.begin(state.lsn, relation_of(state))

        found = read_rows(self._reads.config, view, begin, take)
        if found is None:
            raise rebuilt(view)
        return log_of(found)


class ViewReader:
    """Looks for changes of one generation from time to time."""

    def __init__(self, reads: StateReads, state: FeedState) -> None:
        self._reads, self._state = reads, state

    def close(self) -> None:
        """The session is everybody's."""

    def read(
        self, at: Mapping[int, int], timeout_s: float
    ) -> tuple[Sequence[Entry], dict[int, int]]:
        number, until = at[PARTITION], time.monotonic() + timeout_s
        while True:
            found = self._look(number)
            if found or time.monotonic() + _POLL_S > until:
                end = found[-1].offset + 1 if found else number
                return found, {PARTITION: end}
            time.sleep(_POLL_S)

    def _look(self, number: int) -> Sequence[Entry]:
        state = self._state
        try:
            part = self._reads.ask(lambda conn: read_changes_from(conn, state.view_id, number))
        except RetryableError:
            return ()
        return entries_of(state.view, part, state.epoch, number)
