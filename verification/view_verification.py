"""Compare a view with its source until every row is decided, or too much changes to decide."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from cdc.config import Source
from cdc.kafka.broker import Broker
from cdc.plural import plural
from cdc.topics import table_topic
from jobs.sinks.contract import ViewRow
from jobs.without_mirrors.dead_letters.letter import Letters
from verification.change_window import ChangeWindow, LogWindow, QuietWindow
from verification.comparison import (
    Outcome,
    Row,
    StoredRow,
    compare,
    differing_columns,
    expected_rows,
)
from verification.exact_snapshot import source_at_new_lsn
from verification.key_walk import has_plain_key
from verification.parked_rows import parked_rows
from verification.repair.rows import Repair
from verification.report import Difference, Report
from verification.scope import tables_read
from verification.select_view import SelectView
from verification.source_rows import SourceSnapshot
from verification.values.canonical_form import (
    Canonical,
    canonicalizer,
    packed,
    row_canonicalizer,
    unpacked,
)
from verification.view_positions import Lacking, wait_until_applied
from views.spark.view import MaintainedView, View
from views.table_versions import TableVersion

MAX_ROUNDS = 6
_SAMPLE_ROUNDS = 2
"""Of a comparison of some keys, which is made again and again: each takes a slot."""
_SAMPLE_STATEMENT_MS = 20_000
"""So its snapshots of the source are never old."""
_ASKED_KEYS = 5_000
"""Of more, a store is faster at giving all its rows."""
_SPARE_ROWS = 1_000
_TOLD_ROWS = 10_000
_DIFFERING = 1_000

T = TypeVar("T")


class Verification:
    """One run of ``verify`` on one view."""

    def __init__(
        self,
        dsn: str,
        source: str,
        publication: str,
        view: View | SelectView,
        broker: Broker,
        scan: Callable[[Collection[tuple[object, ...]] | None], Iterable[ViewRow]],
        *,
        timeout_s: float,
        limit: int,
        on_step: Callable[[str], None] = lambda _: None,
        repair: Repair | None = None,
        parked: Callable[[], Letters] = Letters,
        versions: Collection[TableVersion] = (),
        on_lacking: Callable[[Lacking], None] = lambda _: None,
        window: ChangeWindow | None = None,
        parked_keys: Callable[[SourceSnapshot], set[bytes]] | None = None,
        sample: Callable[[SourceSnapshot], set[bytes]] | None = None,
        settings: Source | None = None,
    ) -> None:
        """``scan`` is as of a ``Sink``. ``sample`` gives the packed keys to compare, each value as
        stores have it; without it all are. ``parked`` gives the view's dead letters. ``versions``
        are all of its table's, if it has one: what keys of events may be called. ``on_lacking`` may
        raise while the view is waited for. Of a ``SelectView``: ``window`` tells what changes have
        touched, by default as little as the log does by itself; ``parked_keys`` are the packed keys
        of rows that wait. ``settings`` say how columns are treated; None: none
        is."""
        self._dsn, self._source, self._view = dsn, source, view
        self._publication = publication
        self._broker, self._scan = broker, scan
        self._timeout_s, self._limit, self._on_step = timeout_s, limit, on_step
        self._topic_of = partial(table_topic, source) if settings is None else settings.own_topic
        self._topics = topics = [self._topic_of(*table) for table in tables_read(view)]
        self._names = [output.name for output in view.outputs]
        self._canonical = row_canonicalizer([canonicalizer(o.type) for o in view.outputs])
        self._key = [self._names.index(name) for name in view.key]
        self._report = Report(view.name)
        self._repair, self._parked, self._versions = repair, parked, versions
        self._on_lacking, self._parked_keys = on_lacking, parked_keys
        self._sample, self._settings = sample, settings
        self._max_rounds = MAX_ROUNDS if sample is None else _SAMPLE_ROUNDS
        self._statement_ms = 0 if sample is None else _SAMPLE_STATEMENT_MS
        if isinstance(view, SelectView):
            self._window = window or QuietWindow(broker, topics)
        else:
            self._window = LogWindow(broker, view, topics, versions)
        self._waiting: set[bytes] = set()
        self._parked_away = 0
        self._found: set[bytes] = set()
        self._wrong: set[bytes] = set()
        self._beyond: set[bytes] = set()
        self._doubled: set[bytes] = set()

    def run(self) -> Report:
        """Compare, and with ``repair`` set right what differs, and compare that again.

        ``timeout_s`` bounds each wait for the view, not the reading of rows.

        Raises ``SourceError``, ``ViewError``, ``LogError`` or ``SinkError`` for what cannot be
        compared at all, and ``RetryableError`` when the view does not get as far as the source.
        """
        began = time.monotonic()
        report = self._report
        undecided = self._round(None)
        while undecided and report.rounds < self._max_rounds:
            undecided = self._round(undecided)
        report.undecided = len(undecided)
        report.repaired = len(self._found - self._wrong - undecided)
        report.beyond_repair = len(self._wrong & self._beyond)
        report.differing = [self._named(key) for key in sorted(self._wrong)[:_DIFFERING]]
        if self._sample is not None:
            report.skipped = [self._named(key) for key in sorted(undecided | self._waiting)]
        report.view_rows = report.source_rows - report.missing + report.extra - self._parked_away
        report.seconds = time.monotonic() - began
        return report

    def _round(self, only: set[bytes] | None) -> set[bytes]:
        """Compare at a new LSN, the rows of these keys or all; the keys that stay undecided."""
        report, first = self._report, only is None
        report.rounds += 1
        before = self._broker.end_offsets(self._topics)
        self._window.begin(before)
        self._on_step("taking a snapshot of the source")
        timeout_s, on_step = self._timeout_s, self._on_step
        with source_at_new_lsn(
            self._dsn,
            self._view,
            self._publication,
            timeout_s,
            on_step,
            self._statement_ms,
            self._settings,
        ) as source:
            self._on_step("reading the source")
            if first and self._sample is not None:
                only = self._sample(source)
                report.sampled = len(only)
            rows = source.rows() if only is None else source.rows_of(sorted(only))
            expected = expected_rows(self._counted(rows, "source"), self._view.name)
            if first:
                report.lsn, report.source_rows = source.lsn, len(expected)
            self._wait_for(source.lsn)
            self._on_step("reading the view")
            room = max(0, self._limit - len(report.differences))
            waiting = self._parked_rows(source)
            newer_from = self._window.newer_from(source.lsn)
            # Of those that are kept some may turn out to be newer.
            keep = room + _SPARE_ROWS if room else 0
            stored = self._counted(self._stored(only), "view")
            outcome = compare(expected, stored, newer_from, keep, only)
            self._doubled = outcome.doubled
            self._set_aside(outcome, waiting | self._parked_rows(source))
            if first:
                report.rows_read = outcome.view_rows
            lacking = self._window.withdraw(outcome, source)
            missing = outcome.missing - lacking
            wrong = {*outcome.different, *outcome.extra, *missing}
            self._take(outcome, missing, source)
            self._wrong = wrong if only is None else (self._wrong - only) | wrong
            undecided = outcome.newer | lacking
            last = report.rounds == self._max_rounds
            if self._repair is None or last or not wrong | lacking:
                return undecided
            self._on_step(f"repairing {plural(len(wrong | lacking), 'row')}")
            present = [*outcome.different, *missing]
            beyond = self._repair.write(source, present, outcome.extra, lacking, before)
            self._beyond |= beyond
        return undecided | (wrong - beyond)

    def _counted(self, rows: Iterable[T], of: str) -> Iterator[T]:
        """The rows, and meanwhile how many have been read."""
        for number, row in enumerate(rows, 1):
            if number % _TOLD_ROWS == 0:
                self._on_step(f"reading the {of}: {number:,} rows")
            yield row

    def _wait_for(self, lsn: int) -> None:
        deadline = time.monotonic() + self._timeout_s
        wait_until_applied(
            self._broker,
            self._source,
            {self._view.name: self._topics},
            lsn,
            deadline,
            lambda what: self._on_step(f"waiting for {what}"),
            on_lacking=self._on_lacking,
        )

    def _parked_rows(self, source: SourceSnapshot) -> set[bytes]:
        """The packed keys of rows that wait."""
        view = self._view
        if isinstance(view, SelectView):
            return self._parked_keys(source) if self._parked_keys else set()
        letters = self._parked()
        if isinstance(view, MaintainedView):
            self._report.waiting = len(letters.keys)
        return parked_rows(view, letters, source, self._topic_of, self._versions)

    def _set_aside(self, outcome: Outcome, parked: set[bytes]) -> None:
        """Rows whose events wait are told as that, once, and neither judged nor repaired."""
        report = self._report
        found = parked & (outcome.missing | outcome.different.keys() | outcome.extra.keys())
        first = found - self._waiting
        self._parked_away += len(first & outcome.missing) - len(first & outcome.extra.keys())
        outcome.missing -= found
        for key in found:
            outcome.different.pop(key, None)
            outcome.extra.pop(key, None)
        described = [Difference("parked", self._named(key), {}) for key in sorted(first)]
        report.differences += described[: max(0, self._limit - len(report.differences))]
        self._waiting |= found
        report.parked = len(self._waiting)

    def _stored(self, only: set[bytes] | None) -> Iterator[StoredRow]:
        names, key, canonical = self._names, self._key, self._canonical
        for stored_key, position, found in self._scan(self._asked(only)):
            row = canonical([found.get(name) for name in names])
            packed_key = packed(tuple([row[i] for i in key]))
            yield StoredRow(Row(packed_key, row), position, stored_key)

    def _asked(self, only: set[bytes] | None) -> list[tuple[Canonical, ...]] | None:
        """The keys whose rows the store is asked for, None for all rows: a repair, and who has seen
        two of one of the keys, looks for rows that stand where their keys do not lead to."""
        if only is None:
            return None
        everywhere = self._repair is not None or not only.isdisjoint(self._doubled)
        few = len(only) <= _ASKED_KEYS and not everywhere and has_plain_key(self._view)
        return [unpacked(one) for one in only] if few or self._sample is not None else None

    def _take(self, outcome: Outcome, missing: set[bytes], source: SourceSnapshot) -> None:
        """Count what is certain, and describe the first of it: each key once."""
        report, seen = self._report, self._found
        report.missing += len(missing - seen)
        report.extra += len(outcome.extra.keys() - seen)
        report.different += len(outcome.different.keys() - seen)
        described = [
            *self._described(outcome, source),
            *(Difference("missing", self._named(key), {}) for key in sorted(missing - seen)),
            *(Difference("extra", self._named(key), {}) for key in outcome.extra.keys() - seen),
        ]
        report.differences += described[: max(0, self._limit - len(report.differences))]
        seen.update(missing, outcome.extra, outcome.different)

    def _described(self, outcome: Outcome, source: SourceSnapshot) -> Iterator[Difference]:
        shown = {
            key: values
            for key, values in outcome.different.items()
            if values is not None and key not in self._found
        }
        for row in source.rows_of(sorted(shown)[: self._limit]):
            found = shown[row.key]
            columns = differing_columns(self._names, row.values, found)
            pairs = {name: (wanted, has) for name, wanted, has in columns}
            yield Difference("different", self._named(row.key), pairs)

    def _named(self, key: bytes) -> dict[str, Canonical]:
        names: Sequence[str] = self._view.key
        return dict(zip(names, unpacked(key), strict=True))
