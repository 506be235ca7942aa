"""A snapshot from its first chunk to its last, through as many exported snapshots as it takes.

    round:  slot at L ─▶ point recorded ─▶ tables planned ─▶ chunks read ─▶ older chunks once more
                                                                 │
            next round ◀─────────────────────── DDL, age, a worker's end

Each round has an LSN of its own, above that of the round before. A slot gives it, and is left as
soon as a session of ours keeps the snapshot for the workers: no WAL is held while rows are read.

What a round before has finished is not read again, but for the row versions that its snapshot does
not see. A row can have moved into a finished range from one that was not read yet, and the change
that moved it, which is streamed, may have left its large values out: then nobody would have them.
So in the end every chunk is complete as of the last LSN. Rows of a table without a key cannot come
from two LSNs, as equal ones are not told apart; such a table is read anew, behind a truncate.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from cdc.errors import RetryableError
from cdc.kafka.bulk_producer import BulkProducer
from cdc.lsn import format_lsn
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect
from snapshots import state
from snapshots.chunk import Result, Round, Task, together, what_it_sees
from snapshots.job import Job, StoppedError
from snapshots.ledger import Ledger
from snapshots.replanning import blocks_of, prepare
from snapshots.table_reader import Block, in_snapshot
from snapshots.worker_pool import InlinePool, Pool, ProcessPool, WorkerEndedError

_LOOK_S: Final = 0.5
"""How often is looked whether somebody wants the snapshot to pause or end."""
_BARREN_ROUNDS: Final = 10
"""So many rounds one after the other that finish nothing end the snapshot."""
_PIN = """
select pg_catalog.pg_export_snapshot(), pg_catalog.pg_current_snapshot()::text
"""


class Outcome(NamedTuple):
    """How a round ended: ``why`` another one is needed, ``""`` when all is read."""

    chunks: int
    why: str = ""


def run(job: Job, ledger: Ledger, producer: BulkProducer) -> None:
    """Read until every chunk is in Kafka as of one LSN.

    Raises ``StoppedError`` when somebody asked for it, else what reading and publishing raise. In
    each case what was recorded stays, and the next call goes on there.
    """
    barren = 0
    while barren < _BARREN_ROUNDS:
        outcome = _round(job, ledger, producer)
        if not outcome.why:
            return
        barren = 0 if outcome.chunks else barren + 1
        job.observer.step(f"{outcome.why}: going on at a later LSN")
    raise RetryableError(
        f"no chunk could be read in {_BARREN_ROUNDS} rounds ({outcome.why})",
        "try again once the cause is fixed",
    )


def _round(job: Job, ledger: Ledger, producer: BulkProducer) -> Outcome:
    tables = job.tables()
    with _exported(job, ledger) as (bare, pin):
        plans = prepare(job, ledger, producer, bare.lsn, pin, tables)
        round_ = replace(bare, plans=plans)
        reading = _Reading(job, ledger, round_)
        pool = _pool(job, round_, producer, ledger, reading)
        try:
            return reading.through(pool)
        except WorkerEndedError as error:
            return Outcome(reading.chunks, error.message)
        finally:
            pool.close()


@contextmanager
def _exported(job: Job, ledger: Ledger) -> Iterator[tuple[Round, Connection]]:
    """A snapshot at a new LSN, kept open by a session of ours; its slot is left at once."""
    with ExitStack() as stack:
        keeper = connect(job.source.dsn, application_name="headwater snapshot keeper")
        pin = stack.enter_context(keeper)
        with job.slot() as slot:
            stack.enter_context(in_snapshot(pin, slot.snapshot_name))
            with translated("exporting the snapshot to the workers"):
                row = pin.execute(_PIN).fetchone()
        assert row is not None
        lsn, (name, text) = slot.consistent_point, row
        sees, next_xid = what_it_sees(text)
        ledger.add_point(lsn, sees)
        job.observer.step(f"reading the tables as of {format_lsn(lsn)}")
        share = job.workers
        yield (
            Round(
                job.source, job.kafka, job.context, lsn, name, next_xid, {},
                job.rows_s / share, job.bytes_s / share, job.dead_letters,
            ),
            pin,
        )  # fmt: skip


def _pool(
    job: Job, round_: Round, producer: BulkProducer, ledger: Ledger, reading: _Reading
) -> Pool:
    if job.workers > 1:
        return ProcessPool(round_, job.workers)
    marked = job.marked and len(ledger.points()) == 1
    return InlinePool(round_, producer, marked=marked, on_block=reading.on_block)


class _Reading:
    """One round's chunks, given to a pool and recorded as they are done."""

    def __init__(self, job: Job, ledger: Ledger, round_: Round) -> None:
        self.chunks = 0
        self._job, self._ledger, self._round = job, ledger, round_
        self._started = time.monotonic()
        self._look_at = 0.0
        records, chunks, points = ledger.tables(), ledger.chunks(), ledger.points()
        fresh = [Task((chunk,)) for chunk in chunks if chunk.lsn is None]
        stale = [
            Task((chunk,), points[chunk.lsn])
            for chunk in chunks
            if chunk.lsn is not None
            and chunk.lsn < round_.lsn
            and round_.plans[chunk.label].relation.key
        ]
        most = {label: blocks_of(job, plan) for label, plan in round_.plans.items()}
        self._left = Counter(task.label for task in (*fresh, *stale))
        self._tasks = together([*fresh, *stale], round_.plans, most)[::-1]
        self._rows, self._letters = Counter[str](), Counter[str]()
        self._open: set[str] = set()
        for chunk in chunks:
            self._rows[chunk.label] += chunk.rows + chunk.dead_letters
            self._letters[chunk.label] += chunk.dead_letters
        job.observer.tables({label: record.estimated_rows for label, record in records.items()})
        for label, record in records.items():
            job.observer.rows(label, self._rows[label])
            if not self._left[label]:
                self._finish(record.schema, record.table)

    def through(self, pool: Pool) -> Outcome:
        """Read until all is done, or something asks for another round."""
        why = ""
        while not why and (self._tasks or pool.busy):
            self._look()
            why = self._too_old()
            if not why and self._tasks and pool.idle:
                task = self._tasks.pop()
                self._open.add(task.label)
                pool.give(task)
                why = self._take(pool.results(0))
            elif not why:
                why = self._take(pool.results(_LOOK_S, last=not self._tasks))
        while pool.busy:
            self._take(pool.results(_LOOK_S, last=True))
        return Outcome(self.chunks, why)

    def on_block(self, label: str, block: Block) -> None:
        """Rows are on their way (in this process)."""
        self._job.observer.rows(label, block.rows)

    def _take(self, results: Sequence[Result]) -> str:
        """Record what is in Kafka; why the round must end, or nothing."""
        why = ""
        for result in results:
            chunks, label = result.task.chunks, result.task.label
            if result.changed:
                why = f"{label} was altered"
                continue
            self._ledger.done(chunks, self._round.lsn, result.rows, result.dead_letters)
            self.chunks += len(chunks)
            rows = result.rows + result.dead_letters
            self._rows[label] += rows
            self._letters[label] += result.dead_letters
            if self._job.workers > 1:
                self._job.observer.rows(label, rows)
            self._left[label] -= len(chunks)
            if not self._left[label]:
                self._finish(chunks[0].schema, chunks[0].table)
                self._tell(label)
        return why

    def _finish(self, schema: str, table: str) -> None:
        label = f"{schema}.{table}"
        self._open.discard(label)
        self._ledger.finish(schema, table)
        self._job.observer.table_read(label, self._rows[label])

    def _tell(self, label: str) -> None:
        if count := self._letters[label]:
            self._job.observer.step(
                f"{label}: {count:,} rows were too large for Kafka and are dead letters: "
                "headwater dead-letters list"
            )

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        if what := state.wanted(self._ledger.conn, self._ledger.id):
            raise StoppedError(self._ledger.id, what)

    def _too_old(self) -> str:
        """Vacuum waits for the snapshot: a new one lets it go on, while there is much to read."""
        old = time.monotonic() - self._started > self._job.max_age_s
        fresh = bool(self._tasks) and self._tasks[-1].seen is None
        keyless = any(not self._round.plans[label].relation.key for label in self._open)
        if not old or not fresh or keyless or not self.chunks:
            return ""
        return f"the snapshot is older than {self._job.max_age_s:g} s"
