"""Views in Delta Lake: a table per view at ``<path>/<view>``, kept by MERGE.

A generation that is not live yet has a table of its own (``jobs.sinks.delta_generations``).

The table has the view's columns and ``__commit_lsn`` and ``__ordinal``, the position its row
results from. That makes a write repeatable: an older change does nothing, whatever batch brings it.
A batch that this process writes again is left out by its number already
(``jobs.sinks.transactions``). A deleted row leaves the table for good: a change from before the
delete that arrives in a later batch would bring it back, until the delete that follows it in the
topic comes again too.

Files are compacted and old versions vacuumed between batches, by the one writer there is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import reduce
from operator import and_
from typing import TypeVar

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    LongType,
    StructField,
    StructType,
)

from cdc.config import Delta
from cdc.errors import ViewError
from cdc.lsn import Position
from jobs.sinks import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED, Batch, ViewRow
from jobs.sinks.arrow import stream_columns
from jobs.sinks.documents import key_text
from jobs.sinks.lake import (
    KEY_PROPERTY,
    apart_path,
    features,
    generation_at,
    is_table,
    live_path,
    new_properties,
    run,
    table_properties,
)
from jobs.sinks.merge import bounds, match, newer, of, updated
from jobs.sinks.refusing import TOLD, unkeyed, unknown_values
from jobs.sinks.schema import check_key, evolved, quoted
from jobs.sinks.transactions import Transaction, Transactions, confined, numbered
from jobs.sinks.writing import kept

TEND_BATCHES = 20
"""Files are counted once in so many batches."""
SMALL_FILES = 32
SMALL_FILE_BYTES = 32 << 20
VACUUM_TENDS = 250
"""Files no version of the last week needs are deleted once in so many counts."""

_T = TypeVar("_T")


class DeltaSink:
    """A ``jobs.sinks.Sink`` over one Delta table."""

    def __init__(
        self,
        config: Delta,
        view: str,
        spark: SparkSession | None,
        retry_s: float,
        generation: int | None = None,
    ) -> None:
        if spark is None:
            raise ViewError(f"view {view}: a Delta store needs a Spark session")
        self._view, self._spark, self._retry_s = view, spark, retry_s
        self._path = live_path(config, view)
        self._wanted = generation
        self._apart = "" if generation is None else apart_path(config, view, generation)
        self._columns = StructType()
        self._key: tuple[str, ...] = ()
        self._empty: bool | None = None
        self._batches = 0
        self._transactions: Transactions | None = None

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        held = self._run(lambda: generation_at(self._spark, self._path))
        if self._wanted not in (None, held):
            if self._run(lambda: is_table(self._spark, self._apart)):
                held, self._path = self._wanted, self._apart
            elif held is not None:
                raise ViewError(
                    f"view {self._view}: {self._path} holds generation {held}, and"
                    f" {self._wanted} is nowhere",
                    f"run `headwater view rebuild {self._view}`",
                )
        if held is not None:
            self._run(lambda: self._extend(columns, key))
        else:
            self._run(lambda: self._create(columns, key))
        self._columns, self._key = columns, key
        self._transactions = self._transactions or Transactions(self._spark, self._path)
        return held is None

    def _create(self, columns: StructType, key: tuple[str, ...]) -> None:
        fields = [StructField(field.name, field.dataType) for field in columns]
        position = [StructField(COMMIT_LSN, LongType()), StructField(ORDINAL, LongType())]
        builder = DeltaTable.createIfNotExists(self._spark).location(self._path)
        builder = builder.addColumns(StructType(fields + position))
        for name, value in new_properties(columns, key, self._wanted or 1).items():
            builder = builder.property(name, value)
        builder.execute()

    def _extend(self, columns: StructType, key: tuple[str, ...]) -> None:
        table = self._table(self._spark)
        held_key = table_properties(self._spark, self._path).get(KEY_PROPERTY)
        if held_key is None:
            raise ViewError(
                f"view {self._view}: {self._path} is a Delta table that is not this view's",
                "move it away, or give the store another path",
            )
        check_key(self._view, json.loads(held_key), key)
        held = [f for f in table.toDF().schema if f.name not in (COMMIT_LSN, ORDINAL)]
        whole = evolved(self._view, StructType(held), columns)
        if added := whole.fields[len(held) :]:
            self._add(StructType(added))

    def _add(self, added: StructType) -> None:
        alter = f"ALTER TABLE delta.{quoted(self._path)}"
        if needed := features(added):
            settings = ", ".join(f"'{name}' = '{value}'" for name, value in needed.items())
            self._spark.sql(f"{alter} SET TBLPROPERTIES ({settings})")
        columns = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in added)
        self._spark.sql(f"{alter} ADD COLUMNS ({columns})")

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        with kept(rows) as held:
            facts = self._facts(held)
            if not facts["rows"]:
                return
            if facts["unkeyed"]:
                self._refuse_unkeyed(held)
            if facts["partial"]:
                self._run(lambda: self._check_unchanged(held))
            if self._is_empty():
                self._run(lambda: self._append(held, batch))
            else:
                self._run(lambda: self._merge(held, facts, batch))
        self._empty = False
        self._batches += 1
        if self._batches % TEND_BATCHES == 0:
            self._run(self._tend)

    def _is_empty(self) -> bool:
        """Asked once: what this process writes it knows of."""
        if self._empty is None:
            self._empty = self._run(lambda: self._table(self._spark).toDF().isEmpty())
        return self._empty

    def truncate(self, before: Position, batch: Batch) -> None:  # noqa: ARG002
        # No transaction id: deleting what is older a second time deletes nothing.
        older = newer(*before, than=(F.col(COMMIT_LSN), F.col(ORDINAL)))
        self._run(lambda: self._table(self._spark).delete(older))

    def scan(self) -> Iterator[ViewRow]:
        names = self._columns.names
        wanted = [F.col(quoted(name)) for name in (*names, COMMIT_LSN, ORDINAL)]
        rows = self._run(lambda: self._table(self._spark).toDF().select(*wanted))
        for columns in stream_columns(rows):
            lsns, ordinals = columns.pop(COMMIT_LSN), columns.pop(ORDINAL)
            keys = zip(*(columns[name] for name in self._key), strict=True)
            values = zip(*columns.values(), strict=True)
            for key, row, lsn, ordinal in zip(keys, values, lsns, ordinals, strict=True):
                # What somebody else wrote has no position: it is older than all.
                yield ViewRow(
                    key, Position(lsn or 0, ordinal or 0), dict(zip(names, row, strict=True))
                )

    def close(self) -> None:
        """The session is the caller's; nothing else is held."""

    def _transaction(self, batch: Batch) -> Transaction | None:
        assert self._transactions is not None, "prepare comes first"
        return self._transactions.of(batch)

    def _table(self, session: SparkSession) -> DeltaTable:
        return DeltaTable.forPath(session, self._path)

    def _facts(self, rows: DataFrame) -> Row:
        """What the write has to know of the whole batch, in one pass."""
        keyed = self._keyed()
        facts: Row = rows.agg(
            F.count("*").alias("rows"),
            F.count_if(~keyed).alias("unkeyed"),
            F.count_if(F.size(UNCHANGED) > 0).alias("partial"),
            *bounds(self._columns, self._key),
        ).collect()[0]
        return facts

    def _keyed(self) -> Column:
        return reduce(and_, (F.col(quoted(name)).isNotNull() for name in self._key))

    def _refuse_unkeyed(self, rows: DataFrame) -> None:
        """Nothing of a batch with such rows is written."""
        found = rows.where(~self._keyed()).select(COMMIT_LSN, ORDINAL).limit(TOLD).collect()
        raise unkeyed(self._view, (Position(*row) for row in found))

    def _append(self, rows: DataFrame, batch: Batch) -> None:
        """The first rows of an empty table: nothing to merge with."""
        names = (*self._columns.names, COMMIT_LSN, ORDINAL)
        live = rows.where(~F.col(DELETED)).select(*(F.col(quoted(name)) for name in names))
        writer = live.write.format("delta").mode("append")
        numbered(writer, self._transaction(batch)).save(self._path)

    def _check_unchanged(self, rows: DataFrame) -> None:
        """Nothing of a batch is written when the table lacks rows to take values from."""
        keys = [F.col(quoted(name)) for name in self._key]
        lacking = rows.where((F.size(UNCHANGED) > 0) & ~F.col(DELETED))
        held = self._table(rows.sparkSession).toDF().select(*keys)
        missing = lacking.join(held, list(self._key), "left_anti")
        if count := missing.count():
            told = (key_text(self._columns, self._key), F.col(COMMIT_LSN), F.col(ORDINAL))
            found = missing.select(*told).limit(TOLD).collect()
            of = [(key, Position(lsn, ordinal)) for key, lsn, ordinal in found]
            raise unknown_values(self._view, of, count)

    def _merge(self, rows: DataFrame, facts: Row, batch: Batch) -> None:
        session = rows.sparkSession
        held = (of("t", COMMIT_LSN), of("t", ORDINAL))
        later = newer(of("s", COMMIT_LSN), of("s", ORDINAL), held)
        deleted, partial = of("s", DELETED), bool(facts["partial"])
        names = (*self._columns.names, COMMIT_LSN, ORDINAL)
        with confined(session, self._transaction(batch)):
            (
                self._table(session)
                .alias("t")
                .merge(rows.alias("s"), match(self._columns, self._key, facts))
                .whenMatchedDelete(later & deleted)
                .whenMatchedUpdate(later, {quoted(n): updated(n, partial) for n in names})
                .whenNotMatchedInsert(~deleted, {quoted(n): of("s", n) for n in names})
                .execute()
            )

    def _tend(self) -> None:
        """Compact when small files have gathered; now and then delete what nobody reads."""
        table = self._table(self._spark)
        detail = table.detail().select("numFiles", "sizeInBytes").collect()[0]
        small = detail.sizeInBytes < SMALL_FILE_BYTES * detail.numFiles
        if detail.numFiles > SMALL_FILES and small:
            table.optimize().executeCompaction()
        if self._batches % (TEND_BATCHES * VACUUM_TENDS) == 0:
            table.vacuum()

    def _run(self, action: Callable[[], _T]) -> _T:
        return run(self._view, self._path, self._retry_s, action)
