"""Names in a mirror: labels of enums follow the source, and long names end in a digest."""

from __future__ import annotations

import pytest

from jobs.state.mirrors.enum_labels import label_statements
from jobs.state.mirrors.table import (
    one_identifier,
)


@pytest.mark.parametrize(
    ("held", "wanted", "statements"),
    [
        ({1: "a"}, {1: "a"}, []),
        ({1: "a"}, {1: "b"}, ["rename value 'a' to 'b'"]),
        ({1: "a", 2: "c"}, {1: "a", 3: "b", 2: "c"}, ["add value 'b' before 'c'"]),
        ({1: "a"}, {1: "a", 2: "b", 3: "c"}, ["add value 'b'", "add value 'c'"]),
        (
            {1: "a"},
            {2: "x", 3: "y", 1: "a"},
            ["add value 'x' before 'a'", "add value 'y' before 'a'"],
        ),
        (
            {1: "a", 2: "b"},
            {1: "b", 2: "a"},
            ["'a' to '~0'", "'b' to '~1'", "'~0' to 'b'", "'~1' to 'a'"],
        ),
        ({1: "a", 2: "gone"}, {1: "a"}, []),
        ({1: "a"}, {1: "it's"}, ["rename value 'a' to 'it''s'"]),
    ],
)
def test_labels(held: dict[int, str], wanted: dict[int, str], statements: list[str]) -> None:
    found = label_statements("types.m", held, wanted)
    assert len(found) == len(statements)
    assert all(one.endswith(end) for one, end in zip(found, statements, strict=True))


def test_a_long_name_ends_in_a_digest() -> None:
    assert one_identifier("public", "orders") == "public.orders"
    long, other = one_identifier("public", "ü" * 40), one_identifier("public", "ü" * 41)
    assert len(long.encode()) <= 63
    assert len(other.encode()) <= 63
    assert long != other
