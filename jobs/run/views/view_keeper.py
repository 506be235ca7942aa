"""One view kept in its store: dirty keys taken, their rows made and written, turn by turn.

A turn takes some keys, makes their rows from the mirrors as they are now, gives the store what
differs from what it was given before, and lets the keys go. Whatever is killed between two of
these steps is done again by the next turn. A row that cannot be made, or that the store refuses,
parks its key: it waits in ``headwater.parked`` until a change dirties it again, or ``headwater
dead-letters retry`` does, and all other keys go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cdc.errors import HeadwaterError, RetryableError
from cdc.source.errors import sqlstate
from jobs.run.views.lost_groups import LostGroups
from jobs.run.views.row_changes import Change, RowStore, read_changes
from jobs.sinks.row_errors import TOLD, RowsRefusedError, RowsUnfitError
from jobs.state.batch.stream_offsets import Progress
from jobs.state.dead_letters.parked_keys import ParkedKey, any_parked, key_at, park, unpark
from jobs.state.feeds.feed_log import RowChange, append_changes
from jobs.state.feeds.feed_tables import Feed, end_filling
from jobs.state.groups.sums import GroupSums
from jobs.state.groups.tables import UNKNOWN
from jobs.state.server.connection import Connection, numbered, translated
from jobs.state.views.dirty_keys import (
    NEVER,
    Taken,
    doubt,
    doubt_keys,
    hold,
    reached,
    settle,
    take,
    waits_since,
)
from jobs.state.views.missed_changes import makes_up
from jobs.state.views.rows_query import all_rows_sql, dirty_rows_sql, many_rows_sql
from jobs.state.views.view_generation import ViewGeneration
from jobs.state.views.whole_recomputation import settle_whole, too_large

KEYS_A_TURN: Final = 2_000
"""So many keys are taken at most: other views of the store have their turn between."""
KEYS_A_COMMIT: Final = 20_000
"""The same of a store that writes at a cadence: each write is a commit, whatever is in it."""
MANY_KEYS: Final = 50_000
"""The same of a backlog: its rows are made by one query over all of them."""
_A_BACKLOG: Final = 20_000
"""Of fewer keys each waits less when they are taken in turns with other views."""
_KEYS_A_QUERY: Final = 250
"""Rows are made of so many keys at once: an index scan that is told the keys looks at all of them
each time it is entered, which is as often as there are keys. 2,000 took 2 s, in eights 0.2 s."""
_ALTERED: Final = ("42703", UNKNOWN)
"""No such column, no such table: the mirror follows DDL between two turns."""
DATA_EXCEPTIONS: Final = ("22", "21", "23", "0A")
"""Classes of SQLSTATE that a row's own values cause."""


class RowUnmakeableError(RetryableError):
    """Some of the keys have a row that their values do not allow to be made."""


@dataclass(slots=True)
class Turn:
    """What came of a turn: the last batch that the store holds whole, rows written, keys left."""

    reached: int
    keys: int = 0
    written: int = 0
    parked: int = 0
    more: bool = False
    seconds: float = 0.0
    cause: str = ""
    """Why a key was parked."""


@dataclass(slots=True)
class ViewKeeper:
    """Keeps one generation. Use from one thread, with one connection to the state database.

    ``feed`` has its changes, if they are served. ``whole_rows`` bounds a view that is computed
    whole. Keys that are dirty from batch ``sure_from`` on are no doubtful ones: they were made so
    when nobody kept the view.
    """

    view: ViewGeneration
    store: RowStore
    parked_at_most: int
    whole_rows: int
    keys_at_most: int = KEYS_A_TURN
    sure_from: int = NEVER
    feed: Feed | None = None
    clock: Callable[[], float] = time.monotonic
    _dirty_sql: bytes = field(init=False)
    _many_sql: str | None = field(init=False)
    _whole_sql: bytes = field(init=False)
    _doubtful: bool = field(default=True, init=False)
    """Whether a write may have been cut off: of this process, or of one before it."""
    _session: Connection | None = field(default=None, init=False)
    """That of its last turn."""
    _parks: bool = field(default=True, init=False)
    """Whether keys may be parked."""
    _fills: bool = field(default=True, init=False)
    """Whether its rows may be those of a build, which are no changes."""
    _lost: LostGroups | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        shown = [*self.store.shown, *(self.feed.shown if self.feed else ())]
        self._dirty_sql = dirty_rows_sql(self.view, shown).encode()
        self._many_sql = many_rows_sql(self.view, shown)
        self._whole_sql = all_rows_sql(self.view, shown).encode()

    @property
    def name(self) -> str:
        return self.view.name

    def close(self) -> None:
        """Release the store."""
        self.store.close()

    def turn(self, conn: Connection) -> Turn:
        """Take keys and write their rows, once.

        Raises ``RetryableError`` for what passes, ``ViewError`` for a view that cannot go on.
        """
        began = self.clock()
        if conn is not self._session:
            # A server that went down may have lost what was settled last.
            self._session, self._doubtful, self._fills = conn, True, True
        turn = self._turn(conn)
        turn.seconds = self.clock() - began
        return turn

    def _turn(self, conn: Connection) -> Turn:
        if self._doubtful:
            with translated(f"opening view {self.name}"):
                doubt(conn, self.view, self.sure_from)
                self._parks = any_parked(conn, self.view)
            self._doubtful, self.sure_from = False, NEVER
        if self._lost is not None and self._lost.are_back(conn, self.view, self.clock()):
            self._with(self._lost.groups)
        taken = self._taken(conn)
        if taken.whole is not None:
            return self._whole(conn)
        turn = self._some(conn, taken.places)
        turn.more = taken.more
        return turn

    def _taken(self, conn: Connection) -> Taken:
        """Some keys; of a backlog many, whose rows are made together."""
        with translated(f"taking keys of view {self.name}"):
            taken = take(conn, self.view, self.keys_at_most)
            if not taken.more or taken.whole is not None:
                return taken
            many = take(conn, self.view, MANY_KEYS)
        return many if len(many.places) >= _A_BACKLOG else taken

    def _some(self, conn: Connection, places: Sequence[str]) -> Turn:
        """Make the rows of the keys at ``places``; by halves where one of them cannot be made."""
        try:
            progress, changes = self._made(conn, places)
        except RowUnmakeableError as error:
            if len(places) == 1:
                return self._put_aside(conn, places, error)
            half = len(places) // 2
            one, other = self._some(conn, places[:half]), self._some(conn, places[half:])
            return Turn(
                other.reached,
                one.keys + other.keys,
                one.written + other.written,
                one.parked + other.parked,
                cause=one.cause or other.cause,
            )
        refused = self._write(changes, progress)
        return self._settle(conn, places, progress, changes, refused)

    def _made(self, conn: Connection, places: Sequence[str]) -> tuple[Progress, list[Change]]:
        try:
            with translated(f"making rows of view {self.view.name}"):
                found = self._found(conn, places)
        except HeadwaterError as error:
            if self.view.groups is not None and sqlstate(error) == UNKNOWN:
                self._lost = LostGroups(self.view.groups, self.clock())
                self._with(None)  # until they are back
                return self._made(conn, places)
            if sqlstate(error)[:2] in DATA_EXCEPTIONS:
                raise RowUnmakeableError(error.message, error.hint) from error
            if sqlstate(error) in _ALTERED:
                raise RetryableError(
                    f"view {self.view.name} is being replanned after a table change",
                    "try again in a few seconds",
                ) from error
            raise
        progress = Progress(*found[0][:4])
        changes = self._read(found, 4)
        if len({change.key for change in changes}) < len(changes):
            raise RowUnmakeableError(
                f"view {self.view.name}: two rows have the same key",
                "extend the view's key until it is unique, then rebuild the view",
            )
        return progress, changes

    def _read(self, found: Sequence[Sequence[Any]], first: int) -> list[Change]:
        return read_changes(found, len(self.view.key), first, len(self.store.shown))

    def _with(self, groups: GroupSums | None) -> None:
        """Make rows of groups' sums from now on; None: of all rows of their groups."""
        self.view = replace(self.view, groups=groups)
        self._lost = self._lost if groups is None else None
        self.__post_init__()

    def _found(self, conn: Connection, places: Sequence[str]) -> list[Any]:
        """What the statement gives of all places, in one snapshot."""
        if len(places) <= _KEYS_A_QUERY:
            return self._query(conn, places)
        found: list[Any] = []
        if len(places) >= _A_BACKLOG and self._many_sql is not None:
            with conn.transaction():
                conn.execute(b"set transaction isolation level repeatable read")
                hold(conn, self.view, places)
                return conn.execute(self._many_sql.encode()).fetchall()
        with conn.transaction():
            conn.execute(b"set transaction isolation level repeatable read, read only")
            for first in range(0, len(places), _KEYS_A_QUERY):
                found += self._query(conn, places[first : first + _KEYS_A_QUERY])
        return found

    def _query(self, conn: Connection, places: Sequence[str]) -> list[Any]:
        return numbered(conn).execute(self._dirty_sql, (list(places),), prepare=True).fetchall()

    def _whole(self, conn: Connection) -> Turn:
        with translated(f"computing view {self.name} whole"):
            bound = {"at_most": self.whole_rows}
            found = conn.execute(self._whole_sql, bound, prepare=True).fetchall()
        if found[0][4]:
            raise too_large(self.view, self.whole_rows)
        progress, changes = Progress(*found[0][:4]), self._read(found, 5)
        doubt_keys(conn, self.view, [change.key for change in changes])
        refused = self._write(changes, progress)
        return self._settle(conn, [], progress, changes, refused, whole=True)

    def _write(self, changes: Sequence[Change], progress: Progress) -> dict[tuple[str, ...], str]:
        """Give the store what differs; the keys of rows that it refused, and why."""
        if not changes:
            return {}
        self._doubtful = True  # until it is known that nothing was cut off
        try:
            self.store.write(changes, progress)
        except (RowsRefusedError, RowsUnfitError) as error:
            if len(error.rows) >= TOLD:  # no more are named
                raise
            return self.store.refused(error, changes)
        return {}

    def _settle(
        self,
        conn: Connection,
        places: Sequence[str],
        progress: Progress,
        changes: Sequence[Change],
        refused: dict[tuple[str, ...], str],
        whole: bool = False,
    ) -> Turn:
        """Note what the store holds, and what it refused."""
        kept = [one for one in changes if one.key not in refused]
        written = [(one.key, one.digest) for one in kept if one.digest is not None]
        gone = [one.key for one in kept if one.digest is None]
        with translated(f"settling view {self.name}"):
            if whole or refused or self._parks or (self.feed and kept):
                with conn.transaction():
                    settle(conn, self.view, places, progress.batch, written, gone)
                    if whole:
                        settle_whole(conn, self.view, progress.batch)
                    aside = [ParkedKey(key, cause) for key, cause in refused.items()]
                    park(conn, self.view, aside, self.parked_at_most)
                    unpark(conn, self.view, [one.key for one in kept])
                    if self.feed and kept:
                        told = [RowChange(one.key, *one.told) for one in kept]
                        append_changes(conn, self.feed, told, progress)
                self._parks = any_parked(conn, self.view)
                waiting = waits_since(conn, self.view)
            else:
                waiting = settle(conn, self.view, places, progress.batch, written, gone)
            if self.feed and self._fills and not makes_up(waiting):
                end_filling(conn, self.feed)
                self._fills = False
        self._doubtful = False
        at, cause = reached(waiting, progress.batch), next(iter(refused.values()), "")
        return Turn(at, len(places), len(kept), len(refused), cause=cause)

    def _put_aside(
        self, conn: Connection, places: Sequence[str], error: RowUnmakeableError
    ) -> Turn:
        """Park the key at a place, whose row cannot be made."""
        progress, key = key_at(conn, self.view, places)
        refused = {} if key is None else {key: str(error)}
        return self._settle(conn, places, progress, [], refused)
