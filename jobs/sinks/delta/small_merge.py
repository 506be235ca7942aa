"""A small batch into a small Delta table, by delta-rs in the driver's own process.

A MERGE by Spark is half a dozen jobs, a second or more for two rows. This one takes tens of
milliseconds, and means the same: it writes where the batch is newer, under the same transaction
number in the same log. What it is not for stays Spark's: large batches, large tables, whose files
it would write anew where Spark marks rows as deleted, and what delta-rs does not know of Delta.

An empty table takes more: there Spark first reads a log of which it has seen next to nothing yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake import Transaction as Numbered
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql.types import StructType

from cdc.errors import RetryableError, SinkError
from cdc.lsn import Position
from jobs.batch.thresholds import FEW_BYTES, FEW_ROWS, SMALL_TABLE_BYTES
from jobs.sinks.arrow import python_values
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, ORDINAL, UNCHANGED
from jobs.sinks.delta.delta_reader import bytes_of, first_line, read, table_at, writable
from jobs.sinks.delta.errors import known_fault
from jobs.sinks.delta.transactions import Transaction
from jobs.sinks.row_errors import TOLD

_CONTROL: Final = (DELETED, UNCHANGED, COMMITTED_AT)


def small_table(
    path: str,
    columns: StructType,
    key: Iterable[str],
    rows: int,
    size: Callable[[], int],
    most_rows: int = FEW_ROWS,
) -> DeltaTable | None:
    """The table, None if a batch of up to so many rows is not to be written here; ``size`` tells
    what they take, in bytes. ``most_rows`` are merged into a table that has some."""
    table = writable(path, columns, key)
    if table is None:
        return None
    if rows > most_rows and table.file_uris():
        return None
    if rows > FEW_ROWS and size() > FEW_BYTES:
        return None
    return table if bytes_of(table) <= SMALL_TABLE_BYTES else None


def null_keys(rows: pa.Table, key: Iterable[str]) -> list[Position]:
    """The positions of rows of which a part of the key is null."""
    lacking = reduce(pc.or_, (pc.is_null(rows.column(name)) for name in key))
    found = rows.filter(lacking).slice(0, TOLD)
    return [
        Position(lsn.as_py(), ordinal.as_py())
        for lsn, ordinal in zip(found.column(COMMIT_LSN), found.column(ORDINAL), strict=True)
    ]


def has_unchanged(rows: pa.Table) -> bool:
    """Whether a row keeps a value that the table has."""
    return bool(pc.any(_unchanged(rows)).as_py())


def lacks_rows(path: str, rows: pa.Table, key: Sequence[str]) -> bool:
    """Whether the table has no row to take an unchanged value from, of one of ``rows`` at least."""
    keeping = rows.filter(pc.and_(_unchanged(rows), pc.invert(rows.column(DELETED))))
    first, *_ = key
    held = read(table_at(path), pa.schema([rows.schema.field(name) for name in key]))
    held = held.filter(pc.is_in(held.column(first), keeping.column(first)))
    return not _tuples(keeping, key) <= _tuples(held, key)


def _unchanged(rows: pa.Table) -> Any:
    return pc.greater(pc.coalesce(pc.list_value_length(rows.column(UNCHANGED)), 0), 0)


def _tuples(rows: pa.Table, names: Sequence[str]) -> set[tuple[Any, ...]]:
    columns = [python_values(rows.column(name)) for name in names]
    return set(zip(*columns, strict=True))


def merge(
    view: str,
    path: str,
    rows: pa.Table,
    key: Iterable[str],
    transaction: Transaction | None,
) -> None:
    """Make the table equal to ``rows``, as of ``Sink.apply``, where they are newer.

    Raises ``RetryableError`` when somebody else wrote at the same time, or the disk is full.
    """
    numbers = [] if transaction is None else [Numbered(*transaction)]
    newer = (
        f"(coalesce(t.{COMMIT_LSN}, 0) < s.{COMMIT_LSN} or (coalesce(t.{COMMIT_LSN}, 0) ="
        f" s.{COMMIT_LSN} and coalesce(t.{ORDINAL}, 0) < s.{ORDINAL}))"
    )
    try:
        table = table_at(path)
        if transaction is not None and _has(table, transaction):
            return
        (
            table.merge(
                rows,
                " and ".join(f"t.`{name}` = s.`{name}`" for name in key),
                source_alias="s",
                target_alias="t",
                streamed_exec=False,  # by the bounds of its keys files are left unread
                commit_properties=CommitProperties(app_transactions=numbers),
                post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
            )
            .when_matched_delete(f"{newer} and s.{DELETED}")
            .when_matched_update(_updates(rows), f"{newer} and not s.{DELETED}")
            .when_not_matched_insert_all(f"not s.{DELETED}", except_cols=[*_CONTROL])
            .execute()
        )
    except CommitFailedError as error:
        raise RetryableError(
            f"view {view}: another writer changed {path} at the same time",
            "let only this view write the table",
        ) from error
    except (DeltaError, OSError) as error:
        if found := known_fault(view, path, error):
            raise found from error
        raise SinkError(f"view {view}: Delta table {path}: {first_line(error)}") from error


def _updates(rows: pa.Table) -> dict[str, str]:
    """What each column becomes; names are words."""
    partial = has_unchanged(rows)
    updates = {}
    for name in rows.column_names:
        if name in _CONTROL:
            continue
        new = f"s.`{name}`"
        if partial and name not in (COMMIT_LSN, ORDINAL):
            kept = f"array_has(s.{UNCHANGED}, '{name}')"
            new = f"case when {kept} then t.`{name}` else {new} end"
        updates[f"`{name}`"] = new
    return updates


def _has(table: DeltaTable, transaction: Transaction) -> bool:
    held = table.transaction_version(transaction.app_id)
    return held is not None and held >= transaction.version
