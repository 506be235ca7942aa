"""What a comparison leaves open: rows that changes since the LSN may have touched.

Between the source's LSN and the reading of the view time passes. A row that differs is wrong if no
change of that time can explain it. Three ways to know, the first for views whose rows carry the
position of their own last change, the others for views of any SELECT, whose rows carry that of the
mirrors when they were written:

``LogWindow``     a row at or behind the LSN is newer; one that the view lacks is missing if the log
                  has nothing of its key
``WatchWindow``   the state database tells which keys batches have dirtied since before the LSN; the
                  row of any other key is the one that the source computes for a batch's end
``QuietWindow``   where nobody can be asked: no row is decided unless the log had nothing at all
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from cdc.errors import SourceError
from cdc.kafka.broker import Broker, Offsets
from cdc.source.postgres import identifier, literal
from verification.batch_end import BatchEnds
from verification.comparison import Outcome
from verification.log_changes import UntellableError
from verification.select_view import SelectView
from verification.source_rows import SourceSnapshot
from verification.topic_keys import touched_keys
from views.spark.view import View
from views.table_versions import TableVersion

if TYPE_CHECKING:
    from jobs.state.views.key_watch import KeyWatch

NEVER: Final = 1 << 63
"""A position that no row is at: the position of a row decides nothing."""
_KEYS_TOGETHER: Final = 5_000


class ChangeWindow(Protocol):
    """The time from before an LSN is taken until a view was read."""

    def begin(self, before: Offsets) -> None:
        """To be called before the LSN is taken; the view's topics end at ``before``."""

    def newer_from(self, lsn: int) -> int:
        """The position from which on a row of the view is newer than the source at ``lsn``."""

    def withdraw(self, outcome: Outcome, source: SourceSnapshot) -> set[bytes]:
        """Make ``newer`` of the different and extra rows that changes may explain; the missing ones
        that they may."""


class LogWindow:
    """Of a view whose rows have positions of their own; ``versions`` as of ``key_reader``."""

    def __init__(
        self,
        broker: Broker,
        view: View | SelectView,
        topics: Sequence[str],
        versions: Collection[TableVersion],
    ) -> None:
        self._broker, self._view, self._topics = broker, view, topics
        self._versions = versions
        self._before: Offsets = {}

    def begin(self, before: Offsets) -> None:
        self._before = before

    def newer_from(self, lsn: int) -> int:
        return lsn

    def withdraw(self, outcome: Outcome, source: SourceSnapshot) -> set[bytes]:  # noqa: ARG002
        if not outcome.missing:
            return set()
        after = self._broker.end_offsets(self._topics)
        touched = touched_keys(self._broker, self._view, self._before, after, self._versions)
        return set(outcome.missing) if touched is None else outcome.missing & touched


class QuietWindow:
    """Of a view whose changes nobody tells by key."""

    def __init__(self, broker: Broker, topics: Sequence[str]) -> None:
        self._broker, self._topics = broker, topics
        self._before: Offsets = {}

    def begin(self, before: Offsets) -> None:
        self._before = before

    def newer_from(self, lsn: int) -> int:  # noqa: ARG002
        return NEVER

    def withdraw(self, outcome: Outcome, source: SourceSnapshot) -> set[bytes]:  # noqa: ARG002
        if self._broker.end_offsets(self._topics) == self._before:
            return set()
        return _withdrawn(outcome, None)


class WatchWindow:
    """Of a view whose dirty keys are watched in the state database."""

    def __init__(self, watch: KeyWatch, ends: BatchEnds) -> None:
        self._watch, self._ends = watch, ends
        self._before: Offsets = {}

    def begin(self, before: Offsets) -> None:
        self._before = before
        self._watch.begin()

    def newer_from(self, lsn: int) -> int:  # noqa: ARG002
        return NEVER

    def withdraw(self, outcome: Outcome, source: SourceSnapshot) -> set[bytes]:
        """A key that no batch has dirtied has one row at the ends of all batches of that time. The
        LSN may lie within a batch, so it is the row at such an end that is compared."""
        if not _differing(outcome):
            return set()
        watched = self._watch.look()
        touched = None if watched.keys is None else packed_keys(source, watched.keys)
        lacking = _withdrawn(outcome, touched)
        left = _differing(outcome) - lacking
        if not left:
            return lacking
        try:
            rows = self._ends.digests(source, self._before, watched.offsets, left)
        except UntellableError:
            return _withdrawn(outcome, None)
        if rows is not None:
            _explain(outcome, {key for key in left if rows.get(key) == outcome.found.get(key)})
        return lacking


def packed_keys(source: SourceSnapshot, keys: Collection[Sequence[str]]) -> set[bytes] | None:
    """The packed keys of keys as the state database has them, each value as text; None where the
    source cannot read one of them."""
    found: set[bytes] = set()
    left = iter(keys)
    while part := list(islice(left, _KEYS_TOGETHER)):
        columns = []
        pairs = zip(source.key_names, source.key_types, zip(*part, strict=True), strict=True)
        for name, kind, texts in pairs:
            array = f"array[{', '.join(map(literal, texts))}]::text[]"
            columns.append(f"unnest({array})::{kind} as {identifier(name)}")
        try:
            found |= source.keys(f"select {', '.join(columns)}")
        except SourceError:
            return None
    return found


def _differing(outcome: Outcome) -> set[bytes]:
    return outcome.missing | outcome.different.keys() | outcome.extra.keys()


def _explain(outcome: Outcome, keys: set[bytes]) -> None:
    """These rows are as they should be."""
    outcome.missing -= keys
    for key in keys:
        outcome.different.pop(key, None)
        outcome.extra.pop(key, None)


def _withdrawn(outcome: Outcome, touched: set[bytes] | None) -> set[bytes]:
    """The same with the keys that changes have touched, None standing for all."""
    differing = outcome.different.keys() | outcome.extra.keys()
    for key in differing if touched is None else differing & touched:
        outcome.different.pop(key, None)
        outcome.extra.pop(key, None)
        outcome.newer.add(key)
    return set(outcome.missing) if touched is None else outcome.missing & touched
