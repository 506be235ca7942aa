"""Commands on views, asked of the process that keeps them, and waited for.

Where none runs, one is started here for as long as the commands take.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Final, Protocol

from cdc.config import Config
from cdc.errors import HeadwaterError, RetryableError
from jobs.state.server.apply_lock import database_holder
from jobs.state.server.connection import Connection, connect
from jobs.state.server.database import running_dsn
from jobs.state.views.commands import Answer, Command, answer, ask, hold
from jobs.state.views.view_status import state_session

_POLL_S: Final = 0.1
_HOLDER_S: Final = 1.0
"""Between two looks whether the process that was asked is there."""
_AWAY_S: Final = 5.0
"""So long the state database may be away: its server starts again by itself."""
_APPLICATION: Final = "headwater"


class Teller(Protocol):
    """Hears of views what is being done with them."""

    def step(self, view: str, what: str) -> None:
        """One line."""

    def reading(self, view: str, rows: int, expected: int) -> None:
        """So many rows of the step at work are done, of about ``expected`` (0: nobody knows)."""

    def done(self, view: str) -> None:
        """Nothing more is done with it, for better or worse."""


def asked(
    config: Config, commands: Sequence[Command], teller: Teller, stopping: threading.Event
) -> list[Answer] | None:
    """Ask the process that keeps the views of a source, and wait for its answers, until
    ``stopping``; None where no process keeps them.

    Raises ``RetryableError`` where that process ends meanwhile.
    """
    with state_session(config) as conn:
        if conn is None or not database_holder(conn):
            return None
    with closing(_Waiting(config, teller)) as waiting:
        return waiting.until_done(commands, stopping)


def awaited(
    config: Config, dsn: str, ids: Sequence[tuple[int, str]], teller: Teller
) -> list[Answer]:
    """The answers of a process that is this one: it answers all, also when it ends."""
    with closing(_Waiting(config, teller, dsn)) as waiting:
        return waiting.until_answered(ids, threading.Event())


class _Waiting:
    """Of one who has asked, with a session that says that the answer is waited for."""

    def __init__(self, config: Config, teller: Teller, dsn: str = "") -> None:
        self._config, self._teller, self._own = config, teller, dsn
        self._conn: Connection | None = None
        self._holder, self._looked = "", 0.0
        self._told: dict[int, int] = {}

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def until_done(self, commands: Sequence[Command], stopping: threading.Event) -> list[Answer]:
        conn = self._session()
        self._holder = database_holder(conn)
        return self.until_answered([(ask(conn, one), one.view) for one in commands], stopping)

    def until_answered(
        self, ids: Sequence[tuple[int, str]], stopping: threading.Event
    ) -> list[Answer]:
        found: dict[int, Answer] = {}
        away: float | None = None
        while True:
            try:
                for id_, view in ids:
                    if id_ not in found or not found[id_].done:
                        found[id_] = self._answer(id_, view)
                if all(one.done for one in found.values()):
                    return [found[id_] for id_, _ in ids]
                self._look_for_holder()
                away = None
            except RetryableError as error:
                away = self._away(ids, away, error)
            if stopping.wait(_POLL_S):
                return [_left(found.get(id_), view) for id_, view in ids]

    def _answer(self, id_: int, view: str) -> Answer:
        found = answer(self._session(), id_)
        for line in found.steps[self._told.get(id_, 0) :]:
            self._teller.step(view, line)
        self._told[id_] = len(found.steps)
        if found.rows:
            self._teller.reading(view, found.rows, found.expected)
        if found.done:
            self._teller.done(view)
        return found

    def _look_for_holder(self) -> None:
        """Raises ``_EndedError`` where another process, or none, keeps the state database now."""
        if self._own or time.monotonic() - self._looked < _HOLDER_S:
            return
        if database_holder(self._session()) != self._holder:
            raise _ended()
        self._looked = time.monotonic()

    def _away(
        self, ids: Sequence[tuple[int, str]], since: float | None, error: RetryableError
    ) -> float:
        """The state database does not answer, or the process has gone: whether it comes back."""
        self.close()
        self._conn = None
        now = time.monotonic()
        if since is not None and now - since > _AWAY_S:
            for _, view in ids:
                self._teller.done(view)
            raise _ended() from error
        with suppress(HeadwaterError):
            conn = self._session()
            if not self._own:
                self._holder = database_holder(conn) or self._holder
                for id_, _ in ids:
                    hold(conn, id_)
        return now if since is None else since

    def _session(self) -> Connection:
        if self._conn is None:
            dsn = self._own or running_dsn(self._config)
            if not dsn:
                raise _ended()
            self._conn = connect(dsn, autocommit=True, application_name=_APPLICATION)
        return self._conn


def _left(found: Answer | None, view: str) -> Answer:
    """What there is of an answer that is not waited for any more."""
    if found is None or not (found.done or found.result):
        error = RetryableError(
            f"view {view}: stopped",
            "run `headwater view rebuild` to continue: `headwater apply` stops the build, too",
        )
        return Answer(False, True, (), 0, 0, None, error)
    return found


def _ended() -> RetryableError:
    return RetryableError(
        "the `headwater apply` that ran the command has ended",
        "start it again, then run the command again: a build resumes",
    )
