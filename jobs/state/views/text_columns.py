"""The results of a SELECT of texts as columns: read by COPY, a block of rows at a time.

A cursor would make a Python object of each value, which takes longer than the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyarrow import csv

from jobs.state.server.connection import Connection

_BLOCK_BYTES: Final = 4 << 20
_MARK: Final = "\ufeff".encode()
_PARSED: Final = csv.ParseOptions(newlines_in_values=True)


def text_columns(conn: Connection, select: str, width: int) -> Iterator[pa.Table]:
    """The rows of a SELECT, whose ``width`` columns are all of type text, as tables of strings.

    In the caller's transaction. Nothing else may run in the session until the last one is taken.
    Raises psycopg's errors.
    """
    statement = f"copy ({select}) to stdout (format csv)"
    taken = bytearray()
    with conn.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for row in copy:  # whole rows: a block ends where a row does
            taken += row
            if len(taken) >= _BLOCK_BYTES:
                yield _read(bytes(taken), width)
                taken.clear()
    if taken:
        yield _read(bytes(taken), width)


def _read(block: bytes, width: int) -> pa.Table:
    """NULL is an empty field, an empty text is quoted. One byte order mark at the start is none of
    a text's, so there is one."""
    block = _MARK + block
    names = [str(number) for number in range(width)]
    return csv.read_csv(
        pa.BufferReader(block),
        csv.ReadOptions(use_threads=False, block_size=len(block), column_names=names),
        _PARSED,
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
