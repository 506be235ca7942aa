"""Which columns those of a Relation message are, the catalog being ahead of it."""

from __future__ import annotations

from cdc.protocol.messages import RelationColumn, RelationMessage
from cdc.source.catalog import TableFacts
from cdc.source.describing import attnums

INT4, TEXT = 23, 25
Now = list[tuple[str, int]]


def told(sent: str, now: Now, highest: int, typmod: int = -1) -> list[int | None]:
    """Of a message with these columns, while the catalog has ``now``, names and attnums."""
    columns = tuple(RelationColumn(name, INT4, typmod, False) for name in sent.split())
    message = RelationMessage(16400, "public", "t", "d", columns)
    catalog = tuple((name, INT4, -1, attnum) for name, attnum in now)
    return list(attnums(message, TableFacts({}, (), (), catalog, highest)))


def test_all_columns_that_there_ever_were_are_certain_under_any_names() -> None:
    assert told("id x y", [("id", 1), ("b", 3)], 3) == [1, 2, 3]


def test_the_same_columns_are_and_columns_may_have_come_behind_them() -> None:
    assert told("id b", [("id", 1), ("b", 3)], 3) == [1, 3]
    assert told("id c b", [("id", 1), ("c", 2), ("b", 3), ("d", 4)], 4) == [1, 2, 3]
    assert told("id b", [("id", 1), ("b", 3), ("d", 4)], 4) == [1, 3]


def test_others_are_not() -> None:
    nothing = [None, None]
    assert told("id b", [("id", 1), ("c", 3)], 3) == nothing  # renamed since
    assert told("id b", [("id", 1), ("c", 2), ("b", 4)], 4) == nothing  # one is gone since
    assert told("id b", [("id", 1)], 3) == nothing
    assert told("id b", [("id", 1), ("b", 3)], 3, typmod=10) == nothing
    assert told("id b", [], 0) == nothing
