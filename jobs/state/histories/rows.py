"""The rows of a history as its mirror has them now: all at once, or piece by piece where some
cannot be made.

A row that cannot be made (10 / 0, a value that a column cannot hold) must not keep the history from
all others. One statement fails for one row, so the mirror is read in stretches of its pages, and
those that fail by halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import psycopg
import structlog

from cdc.log_events import LogEvent
from jobs.state.batch.mirror_batch import is_of_data
from jobs.state.dead_letters.parked_keys import too_many_parked
from jobs.state.histories.queue import History
from jobs.state.histories.sql import keys_sql, last_known_sql, whole_sql
from jobs.state.mirrors.mirror_record import read_mirrors
from jobs.state.server.connection import Connection

log = structlog.get_logger("apply")

T = TypeVar("T")
_ROWS: Final = 20_000
_PAGE: Final = 1_000
"""Above the number of rows that a page can hold: page and place of a row make one number."""
_STRETCH: Final = 64 * _PAGE
_SIZE: Final = b"""
select pg_relation_size(%s::regclass) / current_setting('block_size')::bigint
"""

Row = Sequence[Any]
"""Of ``history_sql.whole_sql``."""


@dataclass(slots=True)
class HistoryRows:
    """Read in the caller's transaction, which sees one snapshot: all at once, or piece by piece if
    some, ``at_most`` so many, may be ``left_out``: rows that cannot be made, of whose texts those
    of the key are theirs. Raises ``ViewError`` for more."""

    conn: Connection
    history: History
    at_most: int | None = None
    left_out: list[Row] = field(default_factory=list)
    _cause: str = field(default="", init=False)

    def __iter__(self) -> Iterator[list[Row]]:
        if self.at_most is not None:
            yield from self._stretches()
            return
        yield from self._fetched(self.history.whole())

    def last_known(self) -> Iterator[list[Row]]:
        """Where each key that the mirror has or had was changed or deleted last, the latest one of
        a key behind all others; the texts are the key's. Tombstones expire."""
        history = self.history
        table = read_mirrors(self.conn)[history.table].table
        yield from self._fetched(last_known_sql(history.view, history.form, history.keys, table))

    def _fetched(self, query: str) -> Iterator[list[Row]]:
        with self.conn.cursor(name="headwater_history") as cursor:
            cursor.execute(query.encode())
            while found := cursor.fetchmany(_ROWS):
                yield found

    def _stretches(self) -> Iterator[list[Row]]:
        row = self.conn.execute(_SIZE, (self.history.relation,)).fetchone()
        end = (int(row[0]) if row else 0) * _PAGE
        for first in range(0, end, _STRETCH):
            yield from self._stretch(first, min(first + _STRETCH, end))
        if self.left_out:
            log.warning(LogEvent.HISTORY_ROWS_LEFT_OUT, view=self.history.view.name,
                        rows=len(self.left_out), cause=self._cause)  # fmt: skip

    def _stretch(self, first: int, end: int) -> Iterator[list[Row]]:
        try:
            with self.conn.transaction():
                found = self._read(whole_sql, first, end)
        except psycopg.Error as error:
            if not is_of_data(error):
                raise
            if end - first == 1:
                self._leave_out(self._read(keys_sql, first, end), str(error.diag.message_primary))
                return
            middle = first + (end - first) // 2
            yield from self._stretch(first, middle)
            yield from self._stretch(middle, end)
            return
        unfit = [row for row in found if row[3] is not None]
        if unfit:
            self._leave_out(unfit, f"{unfit[0][3]} does not fit")
        if fit := [row for row in found if row[3] is None]:
            yield fit

    def _read(self, sql: Any, first: int, end: int) -> list[Row]:
        history = self.history
        some = (
            f"(select * from {history.relation} where ctid >= '{_place(first)}'::tid "
            f"and ctid < '{_place(end)}'::tid)"
        )
        query: str = sql(history.view, history.form, history.keys, some)
        return self.conn.execute(query.encode(), prepare=False).fetchall()

    def _leave_out(self, rows: Sequence[Row], cause: str) -> None:
        self.left_out += rows
        self._cause = self._cause or cause
        assert self.at_most is not None, "rows are read piece by piece"
        if len(self.left_out) > self.at_most:
            name = self.history.view.name
            raise too_many_parked(name, len(self.left_out), self.at_most, self._cause)


def with_rows(
    conn: Connection, history: History, at_most: int, read: Callable[[HistoryRows], T]
) -> T:
    """What ``read`` makes of all rows, in a transaction of its own: it is called again, with rows
    piece by piece, where some cannot be made."""
    try:
        return _in_one_snapshot(conn, read, HistoryRows(conn, history))
    except psycopg.Error as error:
        if not is_of_data(error):
            raise
    return _in_one_snapshot(conn, read, HistoryRows(conn, history, at_most))


def _in_one_snapshot(conn: Connection, read: Callable[[HistoryRows], T], rows: HistoryRows) -> T:
    with conn.transaction():
        conn.execute(b"set transaction isolation level repeatable read")
        return read(rows)


def _place(number: int) -> str:
    page, place = divmod(number, _PAGE)
    return f"({page},{place})"
