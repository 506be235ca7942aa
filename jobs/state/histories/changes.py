"""Changes of a batch into the queues of histories, in the transaction that applies the batch.

That is before the mirrors change: they have what an update left out as it was. A change that
cannot be read, or of which a history cannot be computed, is looked for by halves and left out; the
others are queued.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from jobs.sinks.rows import unfit_cause
from jobs.state.batch.mirror_batch import LARGE, is_of_data
from jobs.state.batch.sql import Traits
from jobs.state.batch.staging import Fault, Mirror, Record, Staged, empty, stage
from jobs.state.histories.queue import History
from jobs.state.histories.sql import (
    changes_sql,
    changes_table,
    changes_table_sql,
    lacking_sql,
    put_sql,
    truncates_sql,
)
from jobs.state.server.connection import Connection, translated

_LACKING: Final = "an update leaves out a large value of a row that the mirror does not have"


@dataclass(slots=True)
class HistoryChanges:
    """Of some histories over some mirrors, by ``schema.table``. Use in one session."""

    histories: Sequence[History]
    mirrors: Mapping[str, Mirror]
    _of_table: dict[str, list[History]] = field(default_factory=dict)
    _sql: dict[object, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in self.histories:
            if one.table in self.mirrors:
                self._of_table.setdefault(one.table, []).append(one)

    @property
    def tables(self) -> frozenset[str]:
        """Those that a history reads."""
        return frozenset(self._of_table)

    def prepare(self, conn: Connection) -> None:
        """Make the session's tables of changes anew."""
        with translated("preparing histories"):
            for label in self._of_table:
                mirror = self.mirrors[label]
                for statement in changes_table_sql(mirror.table, mirror.id):
                    conn.execute(statement.encode())

    def queue(
        self, conn: Connection, records: Iterable[Record], batch: int
    ) -> tuple[set[int], list[Fault]]:
        """Queue what each change, in the order given, makes of each history of its table; in the
        caller's transaction. The ids of the histories that have something to write since, and the
        changes that could not be queued."""
        mirrors = {label: self.mirrors[label] for label in self._of_table}
        touched: set[int] = set()
        faults: list[Fault] = []
        with translated("queueing changes of histories"):
            for staged in stage(conn, mirrors, records):
                histories = self._of_table[staged.mirror.table.label]
                touched |= {one.id for one in histories}
                faults += staged.faults
                faults += self._of_mirror(conn, staged, histories, batch)
                for one in histories:
                    self._truncates(conn, staged.mirror, one, batch)
        return touched, faults

    def _of_mirror(
        self, conn: Connection, staged: Staged, histories: Sequence[History], batch: int
    ) -> list[Fault]:
        """By halves where one of the changes cannot be queued."""
        pending, faults = [sorted(staged.records)], []
        while pending:
            part = pending.pop()
            if not part:
                continue
            try:
                with conn.transaction():
                    faults += self._put(conn, staged, histories, batch, part)
            except psycopg.Error as error:
                if not is_of_data(error):
                    raise
                if len(part) > 1:
                    middle = len(part) // 2
                    pending += [part[middle:], part[:middle]]
                    continue
                cause = error.diag.message_primary if error.sqlstate == "22012" else ""
                said = f"a value does not fit (SQLSTATE {error.sqlstate})"
                faults.append(Fault(staged.records[part[0]], cause or said, error.sqlstate or ""))
        return faults

    def _put(
        self,
        conn: Connection,
        staged: Staged,
        histories: Sequence[History],
        batch: int,
        part: Sequence[int],
    ) -> list[Fault]:
        mirror, traits = staged.mirror, staged.traits
        name = changes_table(mirror.id)
        size = conn.execute(b"select pg_table_size(%s::regclass)", (name,)).fetchone()
        empty(conn, name, size[0] if size else 0)
        small = len(part) < LARGE
        conn.execute(self._read(staged, traits), _of_part(mirror, part), prepare=small)
        faults: list[Fault] = []
        if traits.partial:
            lacking = conn.execute(lacking_sql(mirror.id).encode()).fetchall()
            faults += [Fault(staged.records[number], _LACKING) for (number,) in lacking]
        for one in histories:
            parameters = {"batch": batch, "shape": one.shape}
            unfit = conn.execute(self._put_into(one, mirror), parameters, prepare=small)
            for number, column in unfit.fetchall():
                cause = f"view {one.view.name}: {unfit_cause(column, 'the view')}"
                faults.append(Fault(staged.records[number], cause))
        return faults

    def _read(self, staged: Staged, traits: Traits) -> bytes:
        mirror, shapes = staged.mirror, tuple(staged.shapes)
        return mirror.statement(
            ("changes", shapes, traits),
            lambda: changes_sql(mirror.table, mirror.id, shapes, traits),
        )

    def _put_into(self, history: History, mirror: Mirror) -> bytes:
        if (found := self._sql.get(history.id)) is None:
            made = put_sql(history.view, history.form, history.keys, mirror.id)
            found = self._sql[history.id] = made.encode()
        return found

    def _truncates(self, conn: Connection, mirror: Mirror, one: History, batch: int) -> None:
        parameters = {
            "batch": batch,
            "shape": one.shape,
            "mirror": mirror.id,
            "fill_lsn": mirror.fill_lsn,
        }
        conn.execute(truncates_sql(one.view).encode(), parameters, prepare=True)


def _of_part(mirror: Mirror, part: Sequence[int]) -> dict[str, Any]:
    return {
        "mirror": mirror.id,
        "first": part[0],
        "last": part[-1],
        "fill_lsn": mirror.fill_lsn,
        "gone_lsn": 0,
        "gone_ordinal": 0,
        "truncated_lsn": mirror.truncated.commit_lsn,
        "truncated_ordinal": mirror.truncated.ordinal,
    }
