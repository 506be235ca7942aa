"""COPY's text format, exactly: what PostgreSQL escapes comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.errors import ProtocolError
from snapshots.read import parse_block

ESCAPES = [
    (b"\\", b"\\\\"),  # first: the others bring backslashes in
    (b"\b", b"\\b"),
    (b"\f", b"\\f"),
    (b"\n", b"\\n"),
    (b"\r", b"\\r"),
    (b"\t", b"\\t"),
    (b"\v", b"\\v"),
]


def copy_line(row: list[bytes | None]) -> bytes:
    """As CopyAttributeOutText in copyto.c writes it."""
    fields = []
    for value in row:
        if value is None:
            fields.append(b"\\N")
            continue
        for plain, escaped in ESCAPES:
            value = value.replace(plain, escaped)
        fields.append(value)
    return b"\t".join(fields) + b"\n"


values = st.none() | st.text(alphabet="ab\\N\t\n\r\b\f\v é", max_size=6).map(str.encode)


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(values, min_size=n, max_size=n))))
def test_any_rows_come_back_as_they_were(rows: list[list[bytes | None]]) -> None:
    if not rows:
        return
    block = parse_block([copy_line(row) for row in rows], len(rows[0]))
    assert block.rows == len(rows)
    assert [list(row) for row in zip(*block.columns, strict=True)] == rows


def test_null_and_its_look_alike_differ() -> None:
    block = parse_block([b"\\N\n", b"\\\\N\n", b"\n", b"N\n"], 1)
    assert block.columns == [[None, b"\\N", b"", b"N"]]


def test_a_table_without_columns_still_has_rows() -> None:
    assert parse_block([b"\n", b"\n"], 0) == ([], 2)


def test_a_row_of_another_width_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="3 fields in 2 rows of 2 columns"):
        parse_block([b"1\t2\n", b"3\n"], 2)
