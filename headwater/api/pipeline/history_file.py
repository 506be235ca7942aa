"""The past in a file of SQLite, so that it outlasts the server: one row a step, as many as memory
holds. Where the file cannot be used, the past is in memory alone, and it is tried again."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

import structlog

from cdc.log_events import LogEvent
from headwater.pipeline.history import CAPTURE, COARSE_S, SPANS, Past, Step
from headwater.pipeline.picture import Pipeline
from headwater.pipeline.work import Freshness, History

NAME: Final = "history.sqlite"
_SCHEMA: Final = (
    "create table if not exists step (length_s int, number int, document text, "
    "primary key (length_s, number)) without rowid"
)

_AGAIN_S: Final = 60.0
"""After a fault of the file."""
_CLOSED_S: Final = 2.0
"""For what is being written, when the server ends."""

log = structlog.get_logger("serve")


class Memory:
    """Any thread may call it; the folder is one server's. ``now`` is in seconds since 1970. Who
    asks never waits for the disk."""

    def __init__(
        self, folder: Path, views: Iterable[str], now: Callable[[], float] = time.time
    ) -> None:
        self._path, self._now = folder / NAME, now
        self._past = Past(views)
        self._lock = threading.Lock()
        self._file = threading.Lock()
        """Of all below."""
        self._conn: sqlite3.Connection | None = None
        self._unwritten: deque[Step] = deque(maxlen=sum(SPANS.values()))
        self._again_s = 0.0
        self._is_closed = False
        try:
            self._conn = _opened(self._path)
            self._restore(self._conn)
        except (sqlite3.Error, OSError) as error:
            self._put_off(error)

    def close(self) -> None:
        if self._file.acquire(timeout=_CLOSED_S):
            self._is_closed = True
            self._disconnect()
            self._file.release()

    def add(self, picture: Pipeline) -> None:
        """One more look. Waits for the disk."""
        with self._lock:
            ended, begun = self._past.add(self._now(), picture), self._past.begun()
        if not ended:
            return
        with self._file:
            self._unwritten.extend(ended)
            if self._is_closed or self._now() < self._again_s:
                return
            try:
                if self._conn is None:
                    self._conn = _opened(self._path)
                _write(self._conn, [*self._unwritten, *([begun] if begun else [])])
                self._unwritten.clear()
            except (sqlite3.Error, OSError) as error:
                self._put_off(error)

    def history(self, length_s: int, views: Iterable[str], figure: str = "") -> History:
        """Of capture and some views; of one figure, if it is named."""
        with self._lock:
            return self._past.history(length_s, [CAPTURE, *views], self._now(), figure)

    def freshness(self, view: str) -> Freshness:
        """Over the last day."""
        with self._lock:
            return self._past.freshness(view, self._now())

    def _restore(self, conn: sqlite3.Connection) -> None:
        """What is damaged, or of another version, is left out. The newest long step may not be
        over."""
        query = "select length_s, number, document from step order by number"
        newest: Step | None = None
        for length_s, number, text in conn.execute(query):
            if length_s not in SPANS:
                continue
            try:
                step = Step.parsed(length_s, number, json.loads(text))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            if length_s != COARSE_S:
                self._past.restore(step)
                continue
            if newest is not None:
                self._past.restore(newest)
            newest = step
        if newest is not None:
            self._past.resume(newest)

    def _put_off(self, error: Exception) -> None:
        log.warning(LogEvent.HISTORY_NOT_KEPT, reason=str(error))
        self._again_s = self._now() + _AGAIN_S
        self._disconnect()

    def _disconnect(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def _opened(path: Path) -> sqlite3.Connection:
    """The file, made anew where it is none. The owner alone reads it."""
    try:
        return _connected(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # locked, or the disk is full
            raise
        path.replace(path.with_suffix(".damaged"))
        return _connected(path)


def _connected(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    conn = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        conn.execute("pragma journal_mode = wal")
        conn.execute("pragma synchronous = normal")
        conn.execute(_SCHEMA)
        with closing(conn.execute("pragma quick_check(1)")) as checked:
            (found,) = checked.fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
    except BaseException:
        conn.close()
        raise
    return conn


def _write(conn: sqlite3.Connection, steps: Iterable[Step]) -> None:
    conn.execute("begin")
    try:
        for one in steps:
            conn.execute(
                "insert or replace into step values (?, ?, ?)",
                (one.length_s, one.number, json.dumps(one.document())),
            )
            conn.execute(
                "delete from step where length_s = ? and number not between ? and ?",
                (one.length_s, one.number - SPANS[one.length_s] + 1, one.number),
            )
        conn.execute("commit")
    except BaseException:
        if conn.in_transaction:
            conn.execute("rollback")
        raise
