"""Which columns those of a Relation message are, the catalog being ahead of it."""

from __future__ import annotations

from cdc.protocol.messages import RelationColumn, RelationMessage
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.source.catalog import TableFacts
from cdc.source.describing import present
from cdc.source.relations import attnums, describe

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


def described(sent: str, identity: str, catalog: TableFacts, flags: str) -> Relation:
    """Of a message with these columns, those of ``flags`` its key; of ``catalog``, as it is now."""
    columns = tuple(RelationColumn(name, INT4, -1, name in flags.split()) for name in sent.split())
    message = RelationMessage(16400, "public", "t", identity, columns)
    kind = TypeInfo(INT4, "pg_catalog", "int4", "base", "int4")
    return describe(message, catalog, {INT4: kind})


def now(columns: str, key: str, highest: int) -> TableFacts:
    called = columns.split()
    attnums = tuple((name, INT4, -1, at) for at, name in enumerate(called, 1))
    nullable = {name: name not in key.split() for name in called}
    return TableFacts(nullable, tuple(key.split()), (), attnums, highest)


def test_a_key_that_was_renamed_since_is_the_messages_own() -> None:
    """Its order is the primary key's, and what cannot be NULL could not be then."""
    full = described("id a", "f", now("no a", "no", 2), "id a")
    assert full.key == ("id",)
    assert [column.nullable for column in full.columns] == [False, True]
    ordered = described("a b", "d", now("b x", "x b", 2), "a b")
    assert ordered.key == ("b", "a")


def test_a_key_that_took_the_place_of_another_was_the_other_one() -> None:
    """``id`` that makes way for a wider ``new_id``, and capture comes later to what was before."""
    moved = described("id a new_id", "f", now("old_id a id", "id", 3), "id a new_id")
    assert moved.key == ("id",)


def test_a_key_of_a_column_that_came_since_was_none() -> None:
    same = now("id a no", "no", 3)
    assert described("id a", "f", same, "id a").key == ()
    assert described("id a", "d", same, "id").key == ("id",)


def test_without_attnums_names_decide() -> None:
    renamed = now("no a x", "no", 3)
    assert described("id a", "f", renamed, "id a").key == ()
    assert described("id a", "d", renamed, "id").key == ("id",)


def found(*attnums: int | None, now: dict[int, tuple[str, int]]) -> list[int | None]:
    """The columns of a relation (id, a), known by these attnums, in a table of now."""
    kind = TypeInfo(INT4, "pg_catalog", "int4", "base", "int4")
    columns = tuple(
        Column(name, kind, -1, False, True, at) for name, at in zip("ia", attnums, strict=True)
    )
    return present(Relation(16400, "public", "t", "d", columns, ("i",)), now)


def test_a_columns_present_name_is_found_by_its_attnum() -> None:
    assert found(1, 3, now={1: ("x", INT4), 2: ("a", INT4), 3: ("i", INT4)}) == [1, 3]
    assert found(1, 3, now={1: ("i", INT4), 2: ("a", INT4)}) == [1, None]
    assert found(1, 3, now={1: ("i", INT4), 3: ("a", TEXT)}) == [1, None]


def test_without_attnums_names_tell_where_their_order_is_the_same() -> None:
    assert found(None, None, now={1: ("i", INT4), 4: ("a", INT4)}) == [1, 4]
    assert found(None, None, now={1: ("i", INT4), 4: ("a", INT4), 5: ("b", INT4)}) == [1, 4]
    assert found(None, None, now={1: ("i", INT4), 4: ("a", TEXT)}) == [1, None]
    assert found(None, None, now={1: ("a", INT4), 4: ("i", INT4)}) == [None, None]
    assert found(None, None, now={}) == [None, None]
