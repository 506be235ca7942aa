"""Poison events of a view, put aside so that the rest flows. Owned by the view's query.

An event that cannot be applied becomes a dead letter, and its key is parked: later events of that
key go behind it, in their order, in this batch and in all later ones. A delete of the row, or a
TRUNCATE, ends that: it can be applied whatever came before, and nothing after it needs what it
removed. Else somebody retries or discards (``jobs.without_mirrors.dead_letters.retry``).

    letters written and durable ─▶ the rest applied ─▶ letters that are over settled ─▶ committed

A batch that comes again after a crash finds its letters in Kafka, told by where their events stand,
and writes none twice. What was settled meanwhile is left out of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import structlog
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from cdc.errors import ViewError
from cdc.events.codes import DELETE, TRUNCATE
from cdc.kafka.broker import Offsets
from cdc.log_events import LogEvent
from cdc.lsn import Position
from jobs.sinks.row_errors import UNKNOWN
from jobs.without_mirrors.dead_letters.bisection import Poison
from jobs.without_mirrors.dead_letters.letter import Letter, Letters, fate
from jobs.without_mirrors.dead_letters.parked_batch import ParkedBatch
from jobs.without_mirrors.dead_letters.parked_records import is_of, record_id, without
from jobs.without_mirrors.dead_letters.parked_rows import by_owner, fate_of, id_of, owner_of

LETTERS_PER_KEY = 100
"""Letters are limited too, to so many for each key that may be parked."""

log = structlog.get_logger("apply")
_T = TypeVar("_T")
Isolate = Callable[[DataFrame, BaseException, int], list[Poison]]
IsNews = Callable[[str, Position, bool], bool]
"""Whether a view does not leave an event out anyway: its topic, where it stands, if it deletes."""


class Box(Protocol):
    """The letters of one generation: ``jobs.without_mirrors.dead_letters.topic.LetterBox``."""

    def read(self) -> Letters:
        """What is open and what is settled."""

    def write(self, letters: Sequence[Letter], parked: int) -> None:
        """Durable when it returns; ``parked`` keys are, with these."""

    def settle(self, ids: Iterable[str], parked: int) -> None:
        """These wait no more; ``parked`` keys are left."""

    def close(self) -> None:
        """Release connections."""


class Parking:
    """The parked keys of one generation. ``limit`` of them stop the view; 0: the first does.
    ``every``: the view takes each event of a key, not its last one in a batch."""

    def __init__(self, view: str, box: Box, limit: int, every: bool = False) -> None:
        self._view, self._box, self._limit, self._every = view, box, limit, every
        self._letters = Letters()
        self._known: set[str] = set()
        self._once: Offsets = {}

    def open(self, begin: Offsets, once: Offsets | None = None) -> None:
        """Read what is parked. ``begin`` is where the first batch begins: what stands there may
        come again, and be settled. Below ``once`` everything was applied before."""
        self._once = once or {}
        self._letters = self._box.read()
        keyless = {letter.id for letter in self._letters.keyless}
        known = self._letters.settled | keyless
        self._known = {id_ for id_ in known if _is_ahead(id_, begin)}

    def close(self) -> None:
        self._box.close()

    @property
    def letters(self) -> Letters:
        """What waits, as it is written and settled."""
        return self._letters

    @property
    def parked(self) -> int:
        """How many keys are parked, and records without a key."""
        return self._letters.parked

    def through(
        self,
        records: DataFrame,
        end: Offsets,
        attempt: Callable[[DataFrame], _T],
        isolate: Isolate,
        is_news: IsNews,
    ) -> _T:
        """``attempt`` a batch, which ends at ``end``, without what is parked, or has to be.

        Raises what ``attempt`` raises where no single events are to blame, and ``ViewError`` when
        too much would be parked.
        """
        batch = self._begun(records)
        while True:
            flowing = batch.flowing(records, set() if self._every else set(self._letters.keys))
            try:
                done = attempt(flowing)
                break
            except Exception as error:
                if not self._limit:
                    raise
                poison = isolate(flowing, error, self._limit)
                self._park(records, batch, poison, is_news, error)
        self._settle(batch)
        self._known = {id_ for id_ in self._known if _is_ahead(id_, end)}
        return done

    def history(self, records: DataFrame) -> DataFrame:
        """Records of before, without those that nobody can read."""
        letters = self._letters
        return without(records, set(letters.keys), set(letters.open) | letters.settled)

    def _begun(self, records: DataFrame) -> ParkedBatch:
        """Put the events behind the parked ones, but for keys that this batch frees."""
        batch, keys = ParkedBatch(set(self._known)), self._letters.keys
        if not keys:
            return batch
        behind, truncates = by_owner(self._collected(records, is_of(keys) | F.col("key").isNull()))
        fresh: list[Row] = []
        for key, letters in keys.items():
            rows, ends = behind.get(key, []), truncates.get(key.topic, ())
            if self._every:
                waiting, passed = batch.held_up(letters, rows, ends)
                batch.over |= {id_of(row) for row in passed}  # letters too, to be known again
                fresh += waiting + passed
            else:
                fresh += batch.freed(key, letters, rows, ends)
        self._write(self._letter(row, "") for row in fresh)
        return batch

    def _park(
        self,
        records: DataFrame,
        batch: ParkedBatch,
        poison: Sequence[Poison],
        is_news: IsNews,
        error: Exception,
    ) -> None:
        """Letters of the poison, and of what else the batch has of its keys."""
        causes = {one.record: one.cause for one in poison}
        hit = self._collected(records, record_id().isin(list(causes)))
        if any(row.key is None and fate_of(row)[0] == TRUNCATE for row in hit):
            raise error
        if all(owner_of(row) in batch.left or id_of(row) in batch.ids for row in hit):
            raise error  # it fails without them, too
        batch.ids |= {id_of(row) for row in hit if row.key is None}
        rows = [row for row in hit if row.key is None]
        if self._every:
            rows += self._of_lives(records, batch, hit, causes, is_news)
        else:
            rows += self._of_keys(records, batch, hit, causes)
        letters = [self._letter(row, causes.get(id_of(row), "")) for row in rows]
        fresh = [one for one in letters if self._counts(one, is_news)]
        if self._parked_with(fresh) > self._limit:
            raise self._too_many("keys", self._limit, next(iter(causes.values()))) from error
        self._write(fresh)
        if fresh:
            first = min(causes.items())
            parked = len({one.owner or one.id for one in fresh})
            line = {"view": self._view, "keys": parked, "record": first[0], "cause": first[1]}
            log.error(LogEvent.KEYS_PARKED, **line, parked=self.parked)

    def _of_keys(
        self, records: DataFrame, batch: ParkedBatch, hit: Sequence[Row], causes: Mapping[str, str]
    ) -> list[Row]:
        """All that the batch has of the keys of its poison, but for rows that are gone."""
        keys = {owner for row in hit if (owner := owner_of(row)) is not None}
        found = self._collected(records, is_of(keys)) if keys else []
        batch.left |= keys
        batch.ended -= keys
        gone = {owner_of(row) for row in hit if self._is_gone(id_of(row), causes)}
        return [row for row in found if id_of(row) not in batch.ids and owner_of(row) not in gone]

    def _of_lives(
        self,
        records: DataFrame,
        batch: ParkedBatch,
        hit: Sequence[Row],
        causes: Mapping[str, str],
        is_news: IsNews,
    ) -> list[Row]:
        """What has to wait of the keys of a batch's poison, of a view that takes every event. Other
        poison is passed over: what is no news, and of a life that ends in this batch."""
        keys = {owner for row in hit if (owner := owner_of(row)) is not None}
        letters = self._letters.keys
        of_keys, truncates = by_owner(
            self._collected(records, is_of(keys) | F.col("key").isNull()) if keys else []
        )
        waiting: list[Row] = []
        for key in keys:
            poison = [row for row in hit if owner_of(row) == key]
            news = [
                row
                for row in poison
                if not self._is_gone(id_of(row), causes)
                and self._counts(self._letter(row, ""), is_news)
            ]
            batch.ids |= {id_of(row) for row in poison if row not in news}
            if news:
                parked, ends = [*letters.get(key, ()), *news], truncates.get(key.topic, ())
                waiting += batch.held_up(parked, of_keys[key], ends)[0]
        return waiting

    def _is_gone(self, id_: str, causes: Mapping[str, str]) -> bool:
        """Whether an event that comes again changes a row that was deleted since: only so can a
        value be missing that was there when the event was applied."""
        return causes.get(id_, "") == UNKNOWN and not _is_ahead(id_, self._once)

    def _counts(self, letter: Letter, is_news: IsNews) -> bool:
        """Whether the view would not leave the event out anyway."""
        if letter.position is None:
            return True
        return is_news(letter.topic, letter.position, fate(letter.value).op == DELETE)

    def _settle(self, batch: ParkedBatch) -> None:
        """Letters of keys that the batch has freed are over: the store has what came after."""
        over = {
            letter.id: letter.owner
            for letter in self._letters.open.values()
            if batch.is_over(letter)
        }
        if over:
            self._letters.settle(over)
            self._box.settle(over, self.parked)
            keys = len(set(over.values()))
            log.info(LogEvent.KEYS_UNPARKED, view=self._view, keys=keys, parked=self.parked)

    def _write(self, letters: Iterable[Letter]) -> None:
        known = self._letters.open.keys() | self._letters.settled
        fresh = [letter for letter in letters if letter.id not in known]
        if not fresh:
            return
        most = self._limit * LETTERS_PER_KEY
        if len(self._letters.open) + len(fresh) > most:
            raise self._too_many("events of parked keys", most, "they came since")
        fresh.sort(key=lambda letter: (letter.topic, letter.partition, letter.offset))
        self._box.write(fresh, self._parked_with(fresh))
        self._letters.add(fresh)

    def _parked_with(self, letters: Sequence[Letter]) -> int:
        keys = {letter.owner for letter in letters if letter.owner is not None}
        keyless = {one.id for one in letters if one.key is None} - self._letters.open.keys()
        return self.parked + len(keys - self._letters.keys.keys()) + len(keyless)

    def _collected(self, records: DataFrame, which: Column) -> list[Row]:
        """Records of a batch, in the order of their partitions. Raises when they are too many."""
        most = max(self._limit, 1) * LETTERS_PER_KEY
        wanted = ("key", "value", "topic", "partition", "offset", "timestamp")
        rows = records.where("value IS NOT NULL").where(which).select(*wanted)
        found = rows.limit(most + 1).collect()
        if len(found) > most:
            raise self._too_many("events of parked keys", most, "they came in one batch")
        return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))

    def _letter(self, row: Row, cause: str) -> Letter:
        value = bytes(row.value)
        return Letter(
            row.topic,
            row.partition,
            row.offset,
            None if row.key is None else bytes(row.key),
            value,
            len(value),
            fate(value).position,
            int(row.timestamp.timestamp() * 1000),
            time.time_ns() // 1_000_000,
            cause,
        )

    def _too_many(self, what: str, most: int, cause: str) -> ViewError:
        return ViewError(
            f"view {self._view}: more than {most:,} {what} would be parked (apply.dlq_limit = "
            f"{self._limit}; {self.parked} keys are parked): {cause}",
            f"correct the cause, see `headwater dead-letters list {self._view}`, and retry or"
            " discard what is parked; or raise the limit",
        )


def _is_ahead(id_: str, begin: Offsets) -> bool:
    """Whether an event is not below where the stream goes on."""
    topic, partition, offset = id_.rsplit("-", 2)
    if partition == "row":  # nothing of Kafka's
        return False
    return int(offset) >= begin.get(topic, {}).get(int(partition), 0)
