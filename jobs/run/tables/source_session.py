"""One session with the source for questions that come again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from cdc.errors import RetryableError
from cdc.source.bounded_query import answered
from cdc.source.postgres import Connection

_T = TypeVar("_T")
_ANSWER_S: Final = 5.0


class SourceSession:
    """Opened by the first question, and again when it was lost. For one thread."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._conn: Connection | None = None

    def ask(self, question: Callable[[Connection], _T]) -> _T:
        """The answer, within ``_ANSWER_S``: whoever asks has other work. Raises ``HeadwaterError``
        as the question does; of a session that was lost since the last one a new one is asked."""
        if self._conn is not None:
            try:
                return self._asked(self._conn, question)
            except RetryableError:
                pass
        self._conn = self._connect()
        return self._asked(self._conn, question)

    def close(self) -> None:
        """The next question opens another one."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _asked(self, conn: Connection, question: Callable[[Connection], _T]) -> _T:
        try:
            with answered(conn, _ANSWER_S):
                return question(conn)
        except BaseException:
            self.close()
            raise
