"""A batch into a table that keeps what rows were, by Spark: whatever its size, and whatever Delta
tables have that ``jobs.sinks.delta.history.small_batch`` leaves to it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc.events.codes import DELETE, SNAPSHOT, TRUNCATE
from cdc.lsn import Position
from jobs.sinks.batch_writer import kept
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, OP, ORDINAL, UNCHANGED
from jobs.sinks.delta.history.columns import CONTROL, CURRENT, FROM, TO, TO_LSN, TO_ORDINAL
from jobs.sinks.delta.history.spark_order import (
    HELD,
    LIVE,
    NEXT,
    UNKNOWN,
    WAS_LIVE,
    changes_of,
    held_as,
    in_order,
    truncates_of,
    with_op,
)
from jobs.sinks.delta.spark_merge import bounds, of, same, within
from jobs.sinks.delta.table import DeltaView
from jobs.sinks.delta.transactions import Transaction, confined, numbered
from jobs.sinks.documents import key_text
from jobs.sinks.row_errors import TOLD, unknown_values
from jobs.sinks.schema_evolution import quoted


class SparkHistory:
    """The way of any batch into the table of a ``DeltaView``."""

    def __init__(self, of: DeltaView) -> None:
        self._of, self._is_log = of, of.history == "log"

    def write(self, rows: DataFrame, transaction: Transaction | None) -> None:
        """Add a batch, as ``Sink.apply`` has it."""
        with kept(rows) as held:
            facts = self._facts(with_op(held))
            if not facts["rows"]:
                return
            if facts["unkeyed"]:
                self._of.refuse_unkeyed(with_op(held).where(F.col(OP) != TRUNCATE))
            self._of.run(lambda: self._write(with_op(held), facts, transaction))

    def _facts(self, rows: DataFrame) -> dict[str, Any]:
        keyed = F.col(OP) != TRUNCATE
        found = rows.agg(
            F.count("*").alias("rows"),
            F.count_if(keyed & ~self._of.keyed()).alias("unkeyed"),
            F.count_if(keyed & (F.size(UNCHANGED) > 0)).alias("partial"),
            F.count_if(keyed & F.col(DELETED)).alias("deleted"),
            F.count_if(~keyed).alias("truncates"),
            F.min(COMMIT_LSN).alias("lsn"),
            *bounds(self._of.columns, self._of.key),
        ).collect()[0]
        return dict(found.asDict())

    def _write(self, rows: DataFrame, facts: dict[str, Any], number: Transaction | None) -> None:
        columns, key = self._of.columns, self._of.key
        changes = changes_of(rows, columns)
        table = self._of.table(rows.sparkSession).toDF()
        if not facts["truncates"]:
            table = table.where(within(columns, key, facts))
            table = table.join(F.broadcast(changes.select(*self._keys()).distinct()),
                               list(key), "left_semi")  # fmt: skip
        held = self._logged(table, facts) if self._is_log else self._versions(table, facts)
        truncates = truncates_of(rows) if facts["truncates"] else None
        partial = bool(facts["partial"])
        ordered = in_order(columns, key, held.unionByName(changes), truncates, partial)
        with kept(ordered) as found:
            if partial:
                self._check_known(found)
            if self._is_log:
                self._append(found, number)
            else:
                self._merge(found, facts, number)

    def _keys(self) -> list[Column]:
        return [F.col(quoted(name)) for name in self._of.key]

    def newest(self, rows: DataFrame) -> DataFrame:
        """The last change of each key, of rows of a log."""
        whole = F.max_by(F.struct("*"), F.struct(COMMIT_LSN, ORDINAL)).alias("__newest")
        return rows.groupBy(*self._keys()).agg(whole).select("__newest.*")

    def _logged(self, table: DataFrame, facts: dict[str, Any]) -> DataFrame:
        """What the log has since the batch begins; and what was before, where that is asked for:
        only then more is read than what was written last."""
        live, first = ~F.col(OP).isin(DELETE, TRUNCATE), _lsn(facts)
        held = table.where(F.col(COMMIT_LSN) >= first)
        if facts["partial"] or facts["deleted"] or facts["truncates"]:
            held = held.unionByName(self.newest(table.where(F.col(COMMIT_LSN) < first)))
        return held_as(held, self._of.columns, F.col(OP), live)

    def _versions(self, table: DataFrame, facts: dict[str, Any]) -> DataFrame:
        """The versions that ended since the batch begins, or did not yet: where each begins, and
        where it ends."""
        some = table.where(_in_question(F.col(TO_LSN), facts))
        begins = some.withColumn(COMMITTED_AT, F.col(FROM))
        ends = some.where(F.col(TO_LSN).isNotNull())
        for name, at in ((COMMIT_LSN, TO_LSN), (ORDINAL, TO_ORDINAL), (COMMITTED_AT, TO)):
            ends = ends.withColumn(name, F.col(at))
        columns, op = self._of.columns, F.lit(SNAPSHOT)
        return held_as(begins, columns, op, F.lit(True)).unionByName(
            held_as(ends, columns, op, F.lit(False))
        )

    def _check_known(self, found: DataFrame) -> None:
        columns, key = self._of.columns, self._of.key
        missing = found.where(UNKNOWN).select(key_text(columns, key), COMMIT_LSN, ORDINAL)
        told = [(id_, Position(lsn, at)) for id_, lsn, at in missing.limit(TOLD).collect()]
        if told:
            raise unknown_values(self._of.view, told, len(told))

    def _append(self, found: DataFrame, transaction: Transaction | None) -> None:
        op = F.when(F.col(LIVE) | (F.col(OP) == TRUNCATE), F.col(OP)).otherwise(DELETE)
        news = found.where(~F.col(HELD) & (F.col(LIVE) | F.col(WAS_LIVE))).withColumn(OP, op)
        names = (*self._of.columns.names, *(field.name for field in CONTROL["log"]))
        writer = news.select(*map(quoted, names)).write.format("delta").mode("append")
        numbered(writer, transaction).save(self._of.path)

    def _merge(
        self, found: DataFrame, facts: dict[str, Any], transaction: Transaction | None
    ) -> None:
        session = found.sparkSession
        to = {
            TO_LSN: of("s", NEXT)[COMMIT_LSN],
            TO_ORDINAL: of("s", NEXT)[ORDINAL],
            TO: of("s", NEXT)[COMMITTED_AT],
            CURRENT: of("s", NEXT).isNull(),
        }
        begins = {name: of("s", name) for name in (*self._of.columns.names, COMMIT_LSN, ORDINAL)}
        begins[FROM] = of("s", COMMITTED_AT)
        moved = ~(of("t", TO_LSN).eqNullSafe(to[TO_LSN])
                  & of("t", TO_ORDINAL).eqNullSafe(to[TO_ORDINAL]))  # fmt: skip
        matching = same(self._of.key)
        for name in (COMMIT_LSN, ORDINAL):
            matching &= of("t", name) == of("s", name)
        matching &= _in_question(of("t", TO_LSN), facts)
        if not facts["truncates"]:
            matching &= within(self._of.columns, self._of.key, facts, "t")
        with confined(session, transaction):
            (
                self._of.table(session)
                .alias("t")
                .merge(found.where(LIVE).alias("s"), matching)
                .whenMatchedUpdate(moved, to)
                .whenNotMatchedInsert(values={quoted(n): v for n, v in {**begins, **to}.items()})
                .execute()
            )


def _in_question(to_lsn: Column, facts: dict[str, Any]) -> Column:
    """Whether a batch may have to do with a version: it did not end before all of it. Files that
    hold older ones only are left unread."""
    return to_lsn.isNull() | (to_lsn >= _lsn(facts))


def _lsn(facts: dict[str, Any]) -> Column:
    """Where a batch begins: a literal of the column's type, by which Delta leaves files unread."""
    return F.expr(f"{facts['lsn']}L")
