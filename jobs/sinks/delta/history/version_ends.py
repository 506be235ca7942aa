"""Ends of versions in a table of any size: the rows as they were are marked as deleted, and stand
in a new file as they are.

A file that a row is in is neither read as a whole nor written anew: delta-rs would, for it writes
no deletion vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, ORDINAL
from jobs.sinks.delta.compaction import rows_left
from jobs.sinks.delta.deletion_vectors import vector_file
from jobs.sinks.delta.delta_reader import folder_of, is_local
from jobs.sinks.delta.history.arrow_order import Key, keys_of
from jobs.sinks.delta.log import adds, commit, keep_short, marked, staged
from jobs.sinks.delta.transactions import Transaction

_VECTORS: Final = "deletionVectors"
Version = tuple[Key, Position]
"""A version of a row: its key, and where it begins."""


def can_mark(table: DeltaTable) -> bool:
    """Whether rows of the table, which is on this machine, may be marked as deleted, and nobody has
    to be told of each."""
    said = table.metadata().configuration
    return (
        is_local(table.table_uri)
        and said.get("delta.enableDeletionVectors") == "true"
        and _VECTORS in (table.protocol().writer_features or ())
        and said.get("delta.enableChangeDataFeed", "false") != "true"
        and said.get("delta.appendOnly", "false") != "true"
    )


def replace(
    table: DeltaTable,
    key: tuple[str, ...],
    ended: pa.Table,
    rows: pa.Table,
    transaction: Transaction | None,
) -> bool:
    """Put ``rows`` in place of ``ended``, the keys and positions of versions that stand there, in
    one commit. False, and nothing is done, where the log or the files do not say where all of
    those are. Raises ``CommitFailedError`` when somebody else wrote at the same time."""
    folder = folder_of(table.table_uri)
    gone = _marked_rows(table, folder)
    places = _places(table, folder, gone, ended, key)
    found = adds(folder, table.version(), set(places))
    if found.keys() != places.keys() or sum(map(len, places.values())) != len(ended):
        return False
    vectors = [sorted({*of, *gone.get(path, ())}) for path, of in places.items()]
    file = vector_file(uuid4(), vectors)
    (folder / file.name).write_bytes(file.content)
    actions = [{"add": staged(folder, rows)}]
    for path, descriptor in zip(places, file.descriptors, strict=True):
        count = pq.read_metadata(folder / unquote(path)).num_rows
        actions += marked(found[path], descriptor, count)
    commit(folder, table.version(), actions, transaction)
    table.update_incremental()
    keep_short(table, folder)
    return True


def _places(
    table: DeltaTable,
    folder: Path,
    gone: Mapping[str, frozenset[int]],
    ended: pa.Table,
    key: Sequence[str],
) -> dict[str, list[int]]:
    """The files that versions are in, and the numbers of their rows there."""
    wanted, places = set(_versions(ended, key)), dict[str, list[int]]()
    for path in _candidates(table, ended, key):
        with pq.ParquetFile(folder / unquote(path), coerce_int96_timestamp_unit="us") as file:
            held = file.read(columns=ended.column_names).select(ended.column_names)
        held = held.cast(ended.schema)
        some = pc.and_(
            pc.is_in(held.column(key[0]), ended.column(key[0]).combine_chunks()),
            pc.is_in(held.column(COMMIT_LSN), ended.column(COMMIT_LSN).combine_chunks()),
        )
        rows = pc.indices_nonzero(some)
        found = [
            row
            for row, version in zip(rows.to_pylist(), _versions(held.take(rows), key), strict=True)
            if version in wanted and row not in gone.get(path, ())
        ]
        if found:
            places[path] = found
    return places


def _candidates(table: DeltaTable, ended: pa.Table, key: Sequence[str]) -> list[str]:
    """The files that may have some of the versions, by what the log says of their columns."""
    files = pa.table(table.get_add_actions(flatten=True))
    may = pa.array([True] * len(files))
    for name in (*key, COMMIT_LSN):
        low, high = f"min.{name}", f"max.{name}"
        if low not in files.column_names or not _has_exact_bounds(ended.column(name).type):
            continue
        bounds = pc.min_max(ended.column(name))
        for term in (
            pc.less_equal(files.column(low), bounds["max"].cast(files.column(low).type)),
            pc.greater_equal(files.column(high), bounds["min"].cast(files.column(high).type)),
        ):
            may = pc.and_(may, pc.coalesce(term, True))
    return [str(path) for path in files.filter(may).column("path").to_pylist()]


def _has_exact_bounds(kind: pa.DataType) -> bool:
    """Of times the log has whole milliseconds."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))


def _marked_rows(table: DeltaTable, folder: Path) -> dict[str, frozenset[int]]:
    """The rows that are marked as deleted already, of each file that has some."""
    return {
        path: frozenset(pc.indices_nonzero(pc.invert(there)).to_pylist())
        for path, there in rows_left(table, folder).items()
    }


def _versions(rows: pa.Table, key: Sequence[str]) -> list[Version]:
    at = zip(rows.column(COMMIT_LSN).to_pylist(), rows.column(ORDINAL).to_pylist(), strict=True)
    return [(of, Position(*place)) for of, place in zip(keys_of(rows, key), at, strict=True)]
