"""Random histories of tables, and how a view of them is kept through one.

A history is a log of folded batches. Attempts are killed at random places, batches come again,
alone or with others, mirrors are written anew in between, and stores are set back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, Protocol
from unittest.mock import patch

from tests.spark_maintenance import schemas
from tests.spark_maintenance.source import Connection, Source
from tests.support.views.recording_sink import RecordingSink
from views.spark.view import View
from views.table_versions import TableVersion

Changes = dict[str, list[dict[str, Any]]]
"""Of one batch, folded, by table."""


class History:
    """Tables by name and what happened to their rows, here and in a PostgreSQL."""

    def __init__(
        self, seed: int, random: Random, tables: Iterable[TableVersion], conn: Connection
    ) -> None:
        self.seed, self.random = seed, random
        self.tables = {table.name: table for table in tables}
        self.rows = {name: schemas.rows(random, table) for name, table in self.tables.items()}
        self.batches, self.lsn = list[Changes](), 0
        self._lengths = list[int]()
        self._source = Source(conn, self.tables.values())

    def begin(self) -> None:
        """The rows of the beginning."""
        self._add({name: {} for name in self.tables})

    def go_on(self) -> None:
        """A random transaction: what the log has next."""
        before = {name: dict(rows) for name, rows in self.rows.items()}
        tables = list(self.tables.values())
        self._lengths.append(schemas.transaction(self.random, tables, self.rows))
        self.lsn += 10
        self._add(before)

    def _add(self, before: Mapping[str, schemas.Rows]) -> None:
        self.batches.append(
            {
                name: _changes(before[name], self.rows[name], self.lsn + i)
                for i, name in enumerate(self.tables)
            }
        )
        self._source.commit(self.rows)

    def together(self, first: int) -> Changes:
        """The batches from ``first`` on as one: the last change of each row."""
        found: Changes = {}
        for name, table in self.tables.items():
            last: dict[tuple[Any, ...], dict[str, Any]] = {}
            for part in self.batches[first:]:
                for change in part[name]:
                    key = tuple(change["row"][column] for column in table.key)
                    if key not in last or last[key]["lsn"] <= change["lsn"]:
                        last[key] = change
            found[name] = list(last.values())
        return found

    def check(self, view: View, sink: RecordingSink) -> None:
        """Raises ``AssertionError`` where the store is not what the SQL gives in PostgreSQL."""
        stored = (values for _, values in sink.rows.values() if values is not None)
        found = self._source.differences(view, stored)
        if found:
            told = "".join(f"\n  {table.describe()}" for table in self.tables.values())
            said = f"seed {self.seed}, behind transactions of {self._lengths} changes"
            lines = "\n".join(found)
            sql = view.definition.sql
            raise AssertionError(f"{said}:{told}\n{sql}\nkey {view.key}\n{lines}")


def _changes(before: Any, after: Any, lsn: int) -> list[dict[str, Any]]:
    found = [{"row": row, "gone": False, "lsn": lsn} for key, row in after.items()
             if before.get(key) != row]  # fmt: skip
    return found + [
        {"row": row, "gone": True, "lsn": lsn} for key, row in before.items() if key not in after
    ]


class Keeping(Protocol):
    """A view that is kept through a history, whose batches count from 0."""

    history: History
    sink: RecordingSink

    def apply(self, first: int) -> None:
        """The log from ``first`` to its end, as one batch: but for what has been settled."""

    def kill(self, first: int) -> None:
        """As ``apply``; the process ends before or behind one of the writes of the attempt."""

    def check(self) -> None:
        """Raises ``AssertionError`` where the store is not what the SQL says."""


def plain_history(kept: Keeping, batches: int) -> None:
    """Batch after batch, the view is what its SQL says."""
    _begin(kept)
    kept.check()
    for number in range(batches):
        kept.history.go_on()
        kept.apply(number + 1)
        kept.check()


def broken_history(kept: Keeping, batches: int) -> None:
    """The same with kills, what was applied coming again, and mirrors that are written anew."""
    _begin(kept)
    history = kept.history
    for _ in range(batches):
        history.go_on()
        first = history.random.randrange(len(history.batches))
        if history.random.random() < 0.7:
            kept.kill(first)
            if history.random.random() < 0.5:  # and what comes again comes with more
                history.go_on()
        few = -1 if history.random.random() < 0.3 else 20_000
        with patch("jobs.delta_engine.mirrors.mirror._FEW", few):
            kept.apply(first)
        kept.check()


def set_back_history(kept: Keeping, batches: int) -> None:
    """The store is set back, by a backup, and what came since comes again."""
    _begin(kept)
    copies = [dict(kept.sink.rows)]
    for number in range(batches):
        kept.history.go_on()
        kept.apply(number + 1)
        copies.append(dict(kept.sink.rows))
    for number in range(batches):
        kept.sink.rows = dict(copies[number])
        kept.apply(number + 1)
        kept.check()


def _begin(kept: Keeping) -> None:
    kept.history.begin()
    kept.apply(0)
