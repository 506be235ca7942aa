"""COPY's text format, exactly: what PostgreSQL escapes comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columnar.copy_text import copied_columns
from cdc.columnar.tuples import Column
from cdc.errors import ProtocolError
from tests.support.events.copy_text import copy_line

values = st.none() | st.text(alphabet="ab\\N\t\n\r\b\f\v\x01 é😀", max_size=6).map(str.encode)


def texts(column: Column) -> list[bytes | None]:
    assert column.unchanged is None
    found = iter(column.values.to_pylist())
    present = [True] * len(column.values) if column.present is None else column.present.tolist()
    return [next(found) if there else None for there in present]


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(values, min_size=n, max_size=n), min_size=1)
    )
)
def test_any_rows_come_back_as_they_were(rows: list[list[bytes | None]]) -> None:
    columns = copied_columns(b"".join(map(copy_line, rows)), len(rows), len(rows[0]))
    assert [list(row) for row in zip(*map(texts, columns), strict=True)] == rows


def test_null_and_its_look_alike_differ() -> None:
    (column,) = copied_columns(b"\\N\n\\\\N\n\nN\n", 4, 1)
    assert texts(column) == [None, b"\\N", b"", b"N"]


def test_a_table_without_columns_still_has_rows() -> None:
    assert copied_columns(b"\n\n", 2, 0) == []


@pytest.mark.parametrize(
    ("text", "rows", "width", "said"),
    [
        (b"1\t2\n3\n", 2, 2, "3 fields in 2 rows of 2 columns"),
        (b"1\t2\t3\n4\n", 2, 2, "4 fields in 2 rows of 2 columns"),
        (b"1\t2\n3\t4", 2, 2, "3 fields in 2 rows of 2 columns"),
        (b"1\n\n", 1, 0, "2 fields in 1 rows of 0 columns"),
    ],
)
def test_rows_of_another_width_are_an_error(text: bytes, rows: int, width: int, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        copied_columns(text, rows, width)
