"""A session with the source that is kept: opened once, and again when it was lost."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import pytest

from cdc.errors import RetryableError, SourceError
from cdc.source.postgres import Connection
from jobs.run.tables import source_session
from jobs.run.tables.source_session import SourceSession


class Server:
    """Sessions by number; those ``lost`` answer no more."""

    def __init__(self) -> None:
        self.opened, self.lost, self.closed = 0, set[int](), set[int]()

    def connect(self) -> Connection:
        self.opened += 1
        return cast(Connection, _Session(self, self.opened))


class _Session:
    def __init__(self, server: Server, number: int) -> None:
        self.server, self.number = server, number

    def close(self) -> None:
        self.server.closed.add(self.number)


def number(conn: Connection) -> int:
    session = cast(_Session, conn)
    if session.number in session.server.lost:
        raise RetryableError("the connection is lost")
    return session.number


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(*_: Any) -> AbstractContextManager[None]:
        return nullcontext()

    monkeypatch.setattr(source_session, "answered", answered)


def test_it_is_opened_once_and_again_when_it_was_lost() -> None:
    server = Server()
    session = SourceSession(server.connect)
    assert [session.ask(number), session.ask(number)] == [1, 1]
    server.lost = {1}
    assert [session.ask(number), session.ask(number)] == [2, 2]
    assert server.closed == {1}
    session.close()
    assert (session.ask(number), server.closed) == (3, {1, 2})


def test_what_is_away_is_told_and_asked_anew_the_next_time() -> None:
    server = Server()
    session = SourceSession(server.connect)
    server.lost = {1, 3}
    with pytest.raises(RetryableError):
        session.ask(number)
    assert server.closed == {1}
    assert session.ask(number) == 2


def test_a_question_that_is_refused_is_not_asked_again() -> None:
    def refused(_conn: Connection) -> int:
        raise SourceError("no right to")

    server = Server()
    session = SourceSession(server.connect)
    assert session.ask(number) == 1
    with pytest.raises(SourceError):
        session.ask(refused)
    assert (server.opened, server.closed) == (1, {1})
