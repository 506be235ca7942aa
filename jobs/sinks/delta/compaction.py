"""Small files of a Delta table joined by the writer's own process: milliseconds, where OPTIMIZE by
Spark takes ten seconds and more of all that a machine has.

Of tables that ``delta_rs.opened`` knows. The rows of some files, without those that deletion
vectors mark, are written into a new one, and one commit puts it in their place, if nobody else has
committed since. A run writes few bytes, and a file only together with as much of smaller ones, so
that none is written again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from jobs.sinks.delta.delta_reader import folder_of, is_local, opened
from jobs.sinks.delta.log import adds, commit, joined, keep_short, staged

RUN_BYTES: Final = 32 << 20
"""Of the files that one run reads: compressed, so several times that in memory."""
_TINY_BYTES: Final = 1 << 20
"""Files of less are always worth joining."""


def join_files(path: str, least: int) -> int | None:
    """Join small files where that makes them fewer by ``least``; how many fewer there are then.

    0 also where somebody else wrote meanwhile. None for a table that is Spark's to look after.
    """
    table = opened(path) if is_local(path) else None
    if table is None:
        return None
    files = pa.table(table.get_add_actions())
    sizes = zip(files.column("path").to_pylist(), files.column("size_bytes"), strict=True)
    chosen = joinable({str(name): size.as_py() for name, size in sizes})
    if len(chosen) <= max(least, 1):
        return 0
    folder = folder_of(table.table_uri)
    found = adds(folder, table.version(), set(chosen))
    if len(found) < len(chosen):  # the log has them otherwise than it is read here
        return None
    rows = _rows(table, folder, chosen)
    add = staged(folder, rows) if len(rows) else None
    try:
        actions = joined([found[name] for name in chosen], add)
        commit(folder, table.version(), actions, None, "OPTIMIZE")
    except CommitFailedError:
        if add is not None:
            (folder / add["path"]).unlink(missing_ok=True)
        return 0
    table.update_incremental()
    keep_short(table, folder)
    return len(chosen) - len(actions[len(chosen) :])


def joinable(sizes: Mapping[str, int]) -> list[str]:
    """The files to join: of the smallest ones as many as a run may have, but for the last ones that
    are larger than all before them together."""
    found = sorted(sizes, key=lambda name: (sizes[name], name))
    total = chosen = 0
    for number, name in enumerate(found):
        if total + sizes[name] > RUN_BYTES:
            break
        if sizes[name] <= max(total, _TINY_BYTES):
            chosen = number + 1
        total += sizes[name]
    return found[:chosen]


def rows_left(table: DeltaTable, folder: Path) -> dict[str, pa.Array]:
    """Of each file that has a deletion vector, which of its rows are there."""
    vectors = pa.table(table.deletion_vectors().read_all())
    return {
        str(Path(unquote(urlsplit(uri).path)).relative_to(folder)): kept.values
        for uri, kept in zip(vectors.column(0).to_pylist(), vectors.column(1), strict=True)
    }


def _rows(table: DeltaTable, folder: Path, names: Sequence[str]) -> pa.Table:
    schema, kept = pa.schema(table.schema().to_arrow()), rows_left(table, folder)
    found = [schema.empty_table()]
    for name in names:
        with pq.ParquetFile(folder / unquote(name), coerce_int96_timestamp_unit="us") as file:
            rows = file.read()
        if (there := kept.get(unquote(name))) is not None:
            rows = rows.filter(there)
        found.append(_as(schema, rows))
    return pa.concat_tables(found)


def _as(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    """Rows of a file as the table has them now: it may have got columns since."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
