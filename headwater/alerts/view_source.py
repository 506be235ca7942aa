"""The changes of a view, as an alert reads them: the log beside its rows in the state database.

One server reads for an alert, as long as its session lives; others wait for it. Each generation of
the view has a log, which is a partition here: its number is the generation's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

import orjson
import structlog

from cdc.config import Config, RowAlert
from cdc.errors import RetryableError
from cdc.kafka.group_reader import Noted
from cdc.kafka.partition_reader import FetchedRecord
from cdc.log_events import LogEvent
from cdc.protocol.relation import Relation
from headwater.alerts.table_source import Fits
from headwater.api.changes.view_log import relation_of
from jobs.state.feeds.alert_places import (
    AlertLog,
    alert_log,
    begin_alert,
    count_from,
    go_over,
    hold_alert,
    note_place,
    read_part,
)
from jobs.state.feeds.feed_reader import LoggedChange, feed_session, read_feed
from jobs.state.feeds.logged_views import refuse_unlogged, without_log, without_old_rows
from jobs.state.server.connection import Connection

_POLL_S: Final = 0.1
_COUNTED_EVERY_S: Final = 5.0

log = structlog.get_logger("serve")


class ViewSource:
    """Of one alert. Use from the thread of the alert."""

    def __init__(self, config: Config, name: str, alert: RowAlert) -> None:
        self._config, self._name, self._view = config, name, alert.view
        self._relations: dict[str, Relation] = {}
        self._fits: Fits = lambda _: None

    def relation(self, fits: Fits) -> Relation:
        """As readers of the view see it now. Raises as ``reader`` does."""
        with feed_session(self._config) as conn:
            state = read_feed(conn, self._view)
        if state is None:
            raise without_log(self._view)
        found = relation_of(state)
        fits(found)
        return found

    def begin(self, fits: Fits) -> str:
        """A name for its changes; where they begin, the reader finds out."""
        self._fits = fits
        self._relations.clear()
        return f"view {self._view}"

    def reader(self, *_: object) -> ViewReader:
        """``begin`` comes before. Raises what its ``read`` raises. It takes nothing of what readers
        of topics need."""
        with ExitStack() as session:
            conn = session.enter_context(feed_session(self._config))
            found = ViewReader(self._config.source.name, self._name, self._view, conn, self._enter)
            found.hold()
            found.session = session.pop_all()
            return found

    def version(self, schema_id: str) -> Relation:
        """The columns of the generation with this epoch, which the reader has entered."""
        return self._relations[schema_id]

    def _enter(self, found: AlertLog) -> None:
        relation = relation_of(found)
        self._fits(relation)
        self._relations[found.epoch] = relation


class ViewReader:
    """Reads with one session, which holds the alert; use from one thread. ``enter`` is called for
    each log before it is read."""

    def __init__(
        self,
        source: str,
        alert: str,
        view: str,
        conn: Connection,
        enter: Callable[[AlertLog], None],
    ) -> None:
        self._source, self._alert, self._view = source, alert, view
        self._conn, self._enter = conn, enter
        self._log: AlertLog | None = None
        self._at = self._done = 0
        """The next change to read, and the one below which all is delivered or put aside."""
        self._counted_at, self._behind = 0.0, 0
        self._is_paused = False
        self.session = ExitStack()

    def close(self) -> None:
        """Let others read."""
        self.session.close()

    def read(self, timeout_s: float) -> list[FetchedRecord]:
        """Some changes; nothing where nothing comes in time, and while another server reads.

        Raises ``RetryableError`` where the state database, or the view's changes, are not there,
        ``LogError`` where changes are gone, or an update is logged without the row before it, and
        what ``enter`` raises.
        """
        until = time.monotonic() + timeout_s
        while True:
            found = [] if self._is_paused else self._look()
            if found or time.monotonic() + _POLL_S > until:
                return found
            time.sleep(_POLL_S)

    def pause(self, is_paused: bool) -> None:
        """Read nothing for a while; or go on."""
        self._is_paused = is_paused

    def commit(self, places: Mapping[int, Noted]) -> bool:
        """Of the generation that is read now: those before are done."""
        own = self._log
        if own is not None and (place := places.get(own.generation)) is not None:
            note_place(self._conn, self._alert, own.epoch, place.offset, place.note)
            self._done = place.offset
        return True

    def note(self, partition: int) -> str:
        """What was noted with the place in a generation, when that was entered."""
        own = self._log
        return own.note if own is not None and own.generation == partition else ""

    def behind(self, reached: Mapping[int, int]) -> int:
        """How many changes are not done, also of generations that come next. Raises
        ``RetryableError`` where the view has other columns by now, which whoever reads has to know
        of, and where rows before an update are logged no more."""
        if self._log is None or time.monotonic() < self._counted_at:
            return self._behind
        self._counted_at = time.monotonic() + _COUNTED_EVERY_S
        found = alert_log(self._conn, self._alert, self._view)
        if self._log.old_rows and not found.old_rows:
            raise without_old_rows(self._view)
        if found.columns != self._log.columns:
            message = f"view {self._view} has other columns than when the alert began to read"
            raise RetryableError(message, "wait: the alert reads them, and goes on if it fits them")
        number = reached.get(self._log.generation, self._done)
        self._behind = count_from(self._conn, self._alert, self._log, number)
        return self._behind

    def _look(self) -> list[FetchedRecord]:
        if self._log is None and not self.hold():
            return []
        assert self._log is not None, "it is entered"
        part = read_part(self._conn, self._log, self._at)
        if part.changes:
            self._at = part.changes[-1][0].seq + 1
            return [_record(self._log, change, was) for change, was in part.changes]
        if not part.is_shown and self._done == self._at and self._went_over():
            log.info(
                LogEvent.ROW_ALERT_GENERATION, alert=self._alert, view=self._view,
                generation=self._log.generation,
            )  # fmt: skip
        return []

    def hold(self) -> bool:
        """Begin or go on, unless another server reads; whether it does not. Raises as ``read``."""
        if not hold_alert(self._conn, self._source, self._alert):
            return False
        refuse_unlogged(self._conn, self._view)
        if begin_alert(self._conn, self._alert, self._view):
            log.info(LogEvent.ROW_ALERT_BEGINS, alert=self._alert, topic=f"view {self._view}")
        self._enter_log()
        return True

    def _went_over(self) -> bool:
        if not go_over(self._conn, self._alert, self._view):
            return False
        self._enter_log()
        return True

    def _enter_log(self) -> None:
        found = alert_log(self._conn, self._alert, self._view)
        self._enter(found)
        self._log, self._at, self._done = found, found.number, found.number


def _record(of: AlertLog, change: LoggedChange, was: str | None) -> FetchedRecord:
    """A change as an event: with an id in ``source.change``, and the epoch as what its columns are
    found by."""
    row = change.row.encode()
    before = b"null" if was is None else was.encode()
    before, after = (row, b"null") if change.op == "d" else (before, row)
    source = orjson.dumps(
        {
            "view": of.view,
            "schema_id": of.epoch,
            "change": f"{of.epoch}-{change.seq}",
            "commit_lsn": change.lsn,
            "ordinal": change.ordinal,
            "ts_ms": int(change.at.timestamp() * 1_000),
        }
    )
    op = change.op.encode()
    value = b'{"before":%s,"after":%s,"source":%s,"op":"%s"}' % (before, after, source, op)
    told = change.told.encode()
    return FetchedRecord(f"view {of.view}", of.generation, change.seq, told, value)
