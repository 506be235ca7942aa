"""A small batch into a table that keeps what rows were, by delta-rs in the driver's own process.

By Spark it is half a dozen jobs, seconds for a few rows. The table becomes the same one
(``jobs.sinks.delta.history.spark_batch``), in one commit under the same transaction number. Both
kinds of history may be of any size: a log is appended to, and versions that end are marked as
deleted and written as they are now (``jobs.sinks.delta.history.version_ends``). Where there are no
such marks, files with versions that end are written anew: such a table has to be small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake import Transaction as Numbered
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from cdc.errors import RetryableError, SinkError
from jobs.batch.thresholds import FEW_BYTES, FEW_ROWS, HISTORY_CHANGES, SMALL_TABLE_BYTES
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, OP, ORDINAL
from jobs.sinks.delta.delta_reader import bytes_of, first_line, stream, table_at, writable
from jobs.sinks.delta.errors import known_fault
from jobs.sinks.delta.history.arrow_order import (
    Change,
    Ordered,
    ending_elsewhere,
    news_of_log,
    op_in_log,
)
from jobs.sinks.delta.history.changes import Changes
from jobs.sinks.delta.history.columns import CONTROL, CURRENT, FROM, TO, TO_LSN, TO_ORDINAL
from jobs.sinks.delta.history.history_reader import logged, newest, versions
from jobs.sinks.delta.history.version_ends import can_mark, replace
from jobs.sinks.delta.table import DeltaView
from jobs.sinks.delta.transactions import Transaction
from jobs.sinks.row_errors import unkeyed

_TO: Final = (TO_LSN, TO_ORDINAL, TO, CURRENT)


class SmallHistory:
    """The way of small batches into the table of a ``DeltaView``."""

    def __init__(self, of: DeltaView) -> None:
        self._of, self._is_log = of, of.history == "log"

    def takes(self, changes: int, size: Callable[[], int]) -> bool:
        """Whether a batch of so many changes is written here; ``size`` tells what they take, in
        bytes. ``write`` may still leave it to Spark."""
        of = self._of
        if changes > HISTORY_CHANGES or (changes > FEW_ROWS and size() > FEW_BYTES):
            return False
        table = writable(of.path, of.columns, of.key)
        return table is not None and (self._is_log or can_mark(table) or _is_small(table))

    def write(self, changes: pa.Table, transaction: Transaction | None) -> bool:
        """Add a batch, as ``Sink.apply`` has it. False, and nothing is done, if Spark is to do so:
        to name rows that lack a value, or where a TRUNCATE ends what a large table holds."""
        of = self._of
        with _told(of):
            table = table_at(of.path)
            schema = self._schema(table)
            names = {field.name for field in CONTROL[of.history]}
            columns = pa.schema([field for field in schema if field.name not in names])
            batch = Changes(columns, of.key, changes)
            if not len(batch) or (transaction is not None and _has(table, transaction)):
                return True
            if lacking := batch.unkeyed():
                raise unkeyed(of.view, lacking)
            if len(batch.truncates) and not _is_small(table):
                return False
            add = self._add_changes if self._is_log else self._add_versions
            return add(table, schema, batch, transaction)

    def current(self) -> Iterator[dict[str, list[Any]]] | None:
        """The rows that are there now, as ``DeltaView.rows_of`` takes them; None if Spark is to
        read them: it need not hold all of a log to find the newest changes."""
        of = self._of
        table = writable(of.path, of.columns, of.key)
        if table is None or (self._is_log and not _is_small(table)):
            return None
        position = [field for field in CONTROL[of.history] if field.name in (COMMIT_LSN, ORDINAL)]
        return stream(
            table,
            StructType([*of.columns, *position]),
            newest(of.key) if self._is_log else f'"{CURRENT}"',
        )

    def _schema(self, table: DeltaTable) -> pa.Schema:
        """The columns of the table; those of the view as it has them."""
        known = StructType([*self._of.columns, *CONTROL[self._of.history]])
        ours = {field.name: field for field in to_arrow_schema(known, timezone="UTC")}
        return pa.schema([
            ours.get(field.name, field) for field in pa.schema(table.schema().to_arrow())
        ])  # fmt: skip

    def _add_changes(
        self, table: DeltaTable, schema: pa.Schema, batch: Changes, of: Transaction | None
    ) -> bool:
        ordered = batch.in_order(logged(table, batch.question()))
        if ordered.lacks_values():
            return False
        news = news_of_log(ordered)
        ops = {OP: pa.array(map(op_in_log, news), pa.string())}
        _append(table, _rows(schema, ordered, news, ops), of)
        return True

    def _add_versions(
        self, table: DeltaTable, schema: pa.Schema, batch: Changes, of: Transaction | None
    ) -> bool:
        marks = can_mark(table)
        held, to = versions(table, batch.question(every=marks))
        ordered = batch.in_order(held)
        if ordered.lacks_values():
            return False
        moved = ending_elsewhere(ordered, to)
        ends = {
            FROM: ordered.column(COMMITTED_AT, moved),
            TO_LSN: ordered.next(COMMIT_LSN, moved),
            TO_ORDINAL: ordered.next(ORDINAL, moved),
            TO: ordered.next(COMMITTED_AT, moved),
        }
        ends[CURRENT] = pc.is_null(ends[TO_LSN])
        rows = _rows(schema, ordered, moved, ends)
        stood = rows.filter(pa.array([change.held for change in moved], pa.bool_()))
        if not len(stood):
            _append(table, rows, of)
            return True
        if marks:
            identities = stood.select([*self._of.key, COMMIT_LSN, ORDINAL])
            return replace(table, self._of.key, identities, rows, of)
        _merge(table, self._of.key, rows, of)
        return True


def _rows(
    schema: pa.Schema, ordered: Ordered, of: list[Change], beside: dict[str, Any]
) -> pa.Table:
    """Some changes as rows of the table."""
    found = [beside[name] if name in beside else ordered.column(name, of) for name in schema.names]
    return pa.table(found, schema)


def _append(table: DeltaTable, rows: pa.Table, of: Transaction | None) -> None:
    if len(rows):
        write_deltalake(
            table,
            rows,
            mode="append",
            # What the table holds was looked up: another commit since then means once more.
            commit_properties=CommitProperties(max_commit_retries=0, app_transactions=_numbers(of)),
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
        )


def _merge(table: DeltaTable, key: tuple[str, ...], rows: pa.Table, of: Transaction | None) -> None:
    """Names are words."""
    identity = " and ".join(f"t.`{name}` = s.`{name}`" for name in (*key, COMMIT_LSN, ORDINAL))
    (
        table.merge(
            rows,
            identity,
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # by the bounds of its keys files are left unread
            commit_properties=CommitProperties(app_transactions=_numbers(of)),
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
        )
        .when_matched_update({f"`{name}`": f"s.`{name}`" for name in _TO})
        .when_not_matched_insert_all()
        .execute()
    )


def _numbers(of: Transaction | None) -> list[Numbered]:
    return [] if of is None else [Numbered(*of)]


def _has(table: DeltaTable, of: Transaction) -> bool:
    held = table.transaction_version(of.app_id)
    return held is not None and held >= of.version


def _is_small(table: DeltaTable) -> bool:
    return bytes_of(table) <= SMALL_TABLE_BYTES


@contextmanager
def _told(of: DeltaView) -> Iterator[None]:
    """Faults of delta-rs as ours."""
    try:
        yield
    except CommitFailedError as error:
        raise RetryableError(
            f"view {of.view}: another writer changed {of.path} at the same time",
            "let only this view write the table",
        ) from error
    except (DeltaError, OSError) as error:
        if found := known_fault(of.view, of.path, error):
            raise found from error
        raise SinkError(f"view {of.view}: Delta table {of.path}: {first_line(error)}") from error
