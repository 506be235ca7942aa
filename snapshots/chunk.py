"""Reading chunks in the exported snapshot and publishing them, each in a transaction of its own, or
small files of one table together: thousands of partitions then cost no more than their rows.

The transaction is short, so DDL waits for one chunk at most, and the application never waits for
DDL that waits for a snapshot. Between chunks DDL may come: the table's shape is compared with the
plan before and after each chunk, its file under the lock. What differs is no error but an answer:
``changed``, and whoever runs the snapshot plans that table anew at a later LSN.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from cdc.config import Kafka, Source
from cdc.errors import HeadwaterError
from cdc.events.envelope import SourceContext
from cdc.protocol.relation import Relation, TypeInfo
from cdc.source.errors import sqlstate, translated
from cdc.source.postgres import Connection, literal
from cdc.source.table_lookup import lock_against_ddl, lock_together
from cdc.source.types import load_types
from snapshots.ledger import Chunk
from snapshots.plan import MOST_FILES, TablePlan, same_files, shape_now
from snapshots.table_reader import Block, in_snapshot, read_blocks

_GONE: Final = ("42P01", "42703", "42704", "3F000")
"""Undefined table, column, object or schema."""


@dataclass(frozen=True, slots=True)
class Round:
    """What all chunks that are read in one exported snapshot share.

    ``lsn`` is its consistent point, ``next_xid`` is above every transaction that it sees. Limits
    are a worker's, infinite without one.
    """

    source: Source
    kafka: Kafka
    context: SourceContext
    lsn: int
    snapshot_name: str
    next_xid: int
    plans: Mapping[str, TablePlan]
    rows_s: float = float("inf")
    bytes_s: float = float("inf")
    dead_letters: bool = False
    """Whether rows that are too large go to dead letters, and not into an error."""


class Task(NamedTuple):
    """Chunks of one table, to be read together. With ``seen``, a ``pg_snapshot``, only what that
    does not see."""

    chunks: tuple[Chunk, ...]
    seen: str | None = None

    @property
    def label(self) -> str:
        """Their table's ``schema.table``."""
        return self.chunks[0].label


class Result(NamedTuple):
    """What became of a task: ``rows`` are in the table's topic, ``dead_letters`` were too large
    for it. ``changed``: DDL came, and nothing of it counts."""

    task: Task
    rows: int
    changed: bool = False
    dead_letters: int = 0


def together(
    tasks: Iterable[Task], plans: Mapping[str, TablePlan], most_blocks: Mapping[str, int]
) -> list[Task]:
    """The tasks in their order, with small files of one table in one: of as many blocks as a chunk
    of that table at most. Pure."""
    found: list[Task] = []
    blocks = 0
    for task in tasks:
        last = found[-1] if found else None
        more = sum(plans[task.label].leaf(chunk.leaf).blocks for chunk in task.chunks)
        if (
            last
            and (last.label, last.seen) == (task.label, task.seen)
            and len(last.chunks) < MOST_FILES
            and all(one.is_whole for one in (*last.chunks[-1:], *task.chunks))
            and blocks + more <= most_blocks[task.label]
        ):
            found[-1] = last._replace(chunks=(*last.chunks, *task.chunks))
            blocks += more
        else:
            found.append(task)
            blocks = more
    return found


def what_it_sees(text: str) -> tuple[str, int]:
    """A ``pg_snapshot`` as PostgreSQL reads it, and an id above every transaction it sees. Pure.

    A slot's snapshot may have its xmin above its xmax, when those between were all rolled back:
    what is below xmin is over. PostgreSQL writes such a text and does not read it.
    """
    low, high, running = text.split(":")
    if int(low) > int(high):
        return f"{low}:{low}:", int(low)
    return f"{low}:{high}:{running}", int(high)


def unseen(next_xid: int, seen: str) -> str:
    """The condition for row versions whose inserting transaction the ``pg_snapshot`` does not see.

    xmin has 32 bits: of the transactions that end so, the last one below ``next_xid`` is taken. For
    a row that was frozen long ago that may be too late a one; then it is read once more, which
    changes nothing. It is never too early. Subtransactions have ids of their own: the snapshot of
    a slot lists each that was not committed.
    """
    full = f"{next_xid} - (({next_xid} - xmin::text::bigint) & 4294967295)"
    xid8 = f"greatest({full}, 3)::text::xid8"
    return f"NOT pg_catalog.pg_visible_in_snapshot({xid8}, {literal(seen)}::pg_snapshot)"


class Pace:
    """Keeps a worker below its limits, by waiting."""

    def __init__(
        self,
        rows_s: float,
        bytes_s: float,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rows_s, self._bytes_s = rows_s, bytes_s
        self._now, self._wait = now, wait
        self._due = now()

    def spend(self, block: Block) -> None:
        """Wait until a block of that size may be followed by another. Nothing is saved up."""
        now = self._now()
        cost_s = max(block.rows / self._rows_s, len(block.copied) / self._bytes_s)
        self._due = max(self._due, now) + cost_s
        if self._due > now:
            self._wait(self._due - now)


class Publisher(Protocol):
    """Where rows go, as far as who reads them has to know."""

    @property
    def dead_letters(self) -> int:
        """How many rows were too large for it."""

    def start_table(self, relation: Relation, topic: str, now_us: int) -> None:
        """The rows that follow are this table's."""


class ChunkReader:
    """Reads chunks of one round with one session. ``publish`` takes the rows."""

    def __init__(
        self,
        round_: Round,
        conn: Connection,
        publisher: Publisher,
        publish: Callable[[Block], None],
        on_block: Callable[[str, Block], None] = lambda _label, _block: None,
    ) -> None:
        self._round, self._conn = round_, conn
        self._publisher, self._publish, self._on_block = publisher, publish, on_block
        self._pace = Pace(round_.rows_s, round_.bytes_s)
        self._types: dict[int, TypeInfo] = load_types(conn)
        self._table = ""

    def read(self, task: Task) -> Result:
        """Hand all rows of a task to the publisher. Raises what reading and publishing raise.

        After ``changed`` nothing else may be read: the plan is no longer true.
        """
        plan = self._round.plans[task.label]
        if not self._unchanged(plan):
            return Result(task, 0, changed=True)
        before = self._publisher.dead_letters
        try:
            rows = self._rows(plan, task)
        except HeadwaterError as error:
            if sqlstate(error) not in _GONE:
                raise
            return Result(task, 0, changed=True)  # the session is closed
        if rows is None or not self._unchanged(plan):
            return Result(task, 0, changed=True)
        dead_letters = self._publisher.dead_letters - before
        return Result(task, rows - dead_letters, dead_letters=dead_letters)

    def _rows(self, plan: TablePlan, task: Task) -> int | None:
        """How many rows were read; None if DDL came. Who waits for a lock holds no other: where
        DDL has one of them, files are read one after the other."""
        leaves, rows = [plan.leaf(chunk.leaf) for chunk in task.chunks], 0
        condition = unseen(self._round.next_xid, task.seen) if task.seen else ""
        with in_snapshot(self._conn, self._round.snapshot_name):
            is_locked = self._lock(plan, [leaf.name for leaf in leaves])
            if is_locked and not same_files(self._conn, leaves):
                return None
            if is_locked:
                self._start(plan)
                rows = self._copy(plan, plan.statement(task.chunks, condition))
        if is_locked:
            return rows
        for chunk in task.chunks:
            read = self._rows(plan, Task((chunk,), task.seen))
            if read is None:
                return None
            rows += read
        return rows

    def _lock(self, plan: TablePlan, names: Sequence[str]) -> bool:
        """Whether all are locked, else none is; one alone is waited for."""
        with translated(f"locking {plan.label} for the snapshot"):
            if len(names) > 1:
                return lock_together(self._conn, names)
            lock_against_ddl(self._conn, *names)
        return True

    def _copy(self, plan: TablePlan, statement: str) -> int:
        rows = 0
        for block in read_blocks(self._conn, statement, f"reading {plan.label}"):
            self._publish(block)
            rows += block.rows
            self._on_block(plan.label, block)
            self._pace.spend(block)
        return rows

    def _start(self, plan: TablePlan) -> None:
        if self._table != plan.label:
            self._table = plan.label
            self._publisher.start_table(plan.relation, plan.topic, time.time_ns() // 1000)

    def _unchanged(self, plan: TablePlan) -> bool:
        return shape_now(self._conn, plan, self._types, self._round.source) == plan.shape
