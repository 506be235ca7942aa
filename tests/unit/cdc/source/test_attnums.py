"""Which columns those of a Relation message are, the catalog being ahead of it."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.protocol.messages import RelationColumn, RelationMessage
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.protocol.treatment import Treatment
from cdc.source.attribute_numbers import Before, Numbered, attnums
from cdc.source.catalog import TableFacts
from cdc.source.columns.treated_columns import with_treatment
from cdc.source.relation_completion import present
from cdc.source.relations import describe

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


def followed(
    before: str, sent: str, now: str, highest: int, until: int = 0, unpublished: str = ""
) -> str | None:
    """The attnums of a message's columns, by what the table was before, when as many as ``until``
    had been, and by what it is now, with columns that are ``unpublished``."""
    types = {"": INT4, "text": TEXT}

    def read(text: str) -> list[tuple[int, str, int]]:
        parts = [one.split(":") for one in text.split()]
        return [(int(at), name, types[kind]) for at, name, kind in parts]

    columns = tuple(
        RelationColumn(name, types[kind], -1, False)
        for name, _, kind in (one.partition(":") for one in sent.split())
    )
    message = RelationMessage(16400, "public", "t", "d", columns)
    catalog = tuple((name, kind, -1, at) for at, name, kind in read(now))
    known = tuple(Numbered(*one) for one in read(before))
    earlier = Before(known, max(until, known[-1].attnum))
    nullable = dict.fromkeys([*(name for name, *_ in catalog), *unpublished], True)
    found = attnums(message, TableFacts(nullable, (), (), catalog, highest), earlier)
    return None if None in found else " ".join(map(str, found))


@pytest.mark.parametrize(
    ("before", "sent", "now", "highest", "said"),
    [
        # Nothing of what was there is gone: whatever they are called.
        ("1:id: 3:a: 4:b:", "id x y", "1:id: 3:b: 4:a:", 4, "1 3 4"),
        ("1:id: 3:a:", "id b", "1:id: 3:c: 4:d:", 4, "1 3"),
        ("1:id: 3:a:", "id b", "1:id: 3:c: 4:b:", 4, None),  # or 4 it is, by its name
        ("1:id: 3:a: 4:b:", "id b a", "1:id: 3:b: 4:a: 5:c:", 5, "1 3 4"),
        ("1:id: 3:a:", "id b c", "1:id: 3:x: 4:y: 5:z:", 5, "1 3 4"),
        # One is, and nothing has come.
        ("1:id: 3:a: 4:b:", "id a", "1:id: 4:a:", 4, "1 4"),
        ("1:id: 3:a: 4:b:", "id a b", "1:id: 4:c:", 4, "1 3 4"),
        # One is, and one has come: by what they are called.
        ("1:id: 2:a: 3:b:", "id a x", "1:id: 2:a: 4:x:", 4, "1 2 4"),
        ("1:id: 2:a: 3:b:", "id a b", "1:id: 2:a: 4:x:", 4, "1 2 3"),
        ("1:id: 2:a: 3:b:", "id a b c", "1:id: 2:a: 4:c: 5:d:", 5, "1 2 3 4"),
        ("1:id: 2:a: 3:b:text", "id a x:text", "1:id: 2:a: 4:x:text", 4, "1 2 4"),
        ("1:id: 2:a: 3:b:text", "id a x", "1:id: 2:a: 4:x:", 4, "1 2 4"),
        # A column that was dropped, and another one has its name.
        ("1:id: 2:a: 3:b: 4:c:", "id a b c:text", "1:id: 3:a: 4:b: 5:c:text", 5, "1 3 4 5"),
        ("1:id: 2:a: 3:b: 4:c:", "id a b d", "1:id: 3:a: 4:b: 5:d:", 5, "1 3 4 5"),
        ("1:id: 2:a: 3:b:text", "id a c", "1:id: 3:a: 4:c: 5:x:", 5, "1 3 4"),
        ("1:id: 2:a: 3:b:", "id a", "1:id: 3:a: 4:x:", 4, "1 3"),
        ("1:id: 2:a: 3:b:", "id a b", "1:id: 3:a: 4:b: 5:y:text", 5, "1 3 4"),  # as it is now
        ("1:id: 2:a: 3:b:", "id a x", "1:id: 3:a: 4:x: 5:y:", 5, "1 3 4"),
        # One that came and went again, under a name that nobody knows.
        ("1:id: 2:a: 3:b:", "id a b y", "1:id: 2:a: 4:x:", 5, None),
        ("1:id: 2:a: 4:b:", "id a b y", "1:id: 2:a: 4:b: 6:z:", 6, None),
        # Twice renamed: what it was called in between is not known.
        ("1:id: 2:a: 3:b:", "id q x", "1:id: 2:r: 4:x:", 4, None),
        # More than there can be, and fewer.
        ("1:id: 3:a:", "id a b c", "1:id: 3:a: 5:d:", 6, None),
        ("1:id: 3:a: 4:b:", "id x", "1:id: 3:a: 4:b: 5:c:", 5, None),
    ],
)
def test_what_was_before_and_what_is_now_say_what_is_in_between(
    before: str, sent: str, now: str, highest: int, said: str | None
) -> None:
    assert followed(before, sent, now, highest) == said


@pytest.mark.parametrize(
    ("before", "sent", "now", "highest"),
    [
        ("1:id:", "id c", "1:id: 2:g: 3:c:", 3),  # g was generated, then DROP EXPRESSION
        ("1:id: 4:a:", "id g a", "1:id: 4:a: 5:x:", 5),  # g is 2, no more generated, and dropped
        ("1:id: 3:a:", "id b a", "1:id: 3:a: 4:c:", 4),  # b is 2: of other lists of columns
        ("1:id: 2:b: 3:c:", "id c", "1:id: 2:b: 4:d:", 4),
        ("1:id:", "id b", "1:id: 2:a: 3:b:", 3),
    ],
)
def test_columns_that_were_not_published_in_between_are_told_by_names_that_contradict(
    before: str, sent: str, now: str, highest: int
) -> None:
    assert followed(before, sent, now, highest) is None


def test_of_a_table_that_is_published_in_part_names_tell() -> None:
    assert followed("1:id: 3:a:", "id x", "1:id: 3:y:", 4) == "1 3"
    assert followed("1:id: 3:a:", "id x", "1:id: 3:y:", 4, unpublished="z") is None
    assert followed("1:id: 3:a:", "id a", "1:id: 3:b:", 4, unpublished="z") == "1 3"


def test_of_a_table_that_is_gone_names_tell() -> None:
    assert followed("1:id: 2:a:", "id a", "", 0) == "1 2"
    assert followed("1:id: 2:a:", "id b", "", 0) is None


class Shape(NamedTuple):
    """A table: attnum, name and type of each column, and the highest attnum there was."""

    columns: tuple[tuple[int, str, int], ...]
    highest: int


def altered(shape: Shape, change: int, at: int, name: str, kind: int) -> Shape:
    """With a column added, dropped, renamed, or of another type."""
    columns, highest = shape
    at %= len(columns)
    before, (attnum, was, its), after = columns[:at], columns[at], columns[at + 1 :]
    if change == 0 or (change == 1 and len(columns) == 1):
        return Shape((*columns, (highest + 1, name, kind)), highest + 1)
    if change == 1:
        return Shape(before + after, highest)
    changed = (attnum, name, its) if change == 2 else (attnum, was, kind)
    return Shape((*before, changed, *after), highest)


DDL = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 7), st.sampled_from([INT4, TEXT])), max_size=6
)


@pytest.mark.parametrize("all_renamed", [False, True])
@given(earlier=DDL, since=DDL, later=DDL)
def test_attnums_are_right_or_none(all_renamed: bool, earlier: Any, since: Any, later: Any) -> None:
    """Where no name is used twice, and also where every column has another one each time."""
    unused = (f"c{n}" for n in count())
    shape = Shape(((1, "id", INT4),), 1)
    shapes = [shape]
    for changes in (earlier, since, later):
        for change, at, kind in changes:
            shape = altered(shape, change, at, next(unused), kind)
        if all_renamed:
            renamed = tuple((attnum, next(unused), kind) for attnum, _, kind in shape.columns)
            shape = shape._replace(columns=renamed)
        shapes.append(shape)
    _, before, sent, now = shapes
    columns = tuple(RelationColumn(name, kind, -1, False) for _, name, kind in sent.columns)
    message = RelationMessage(16400, "public", "t", "d", columns)
    catalog = tuple((name, kind, -1, attnum) for attnum, name, kind in now.columns)
    facts = TableFacts({}, (), (), catalog, now.highest)
    known = tuple(Numbered(*column) for column in before.columns)
    for known_highest in (known[-1].attnum, before.highest):
        found = list(attnums(message, facts, Before(known, known_highest)))
        assert found in ([attnum for attnum, _, _ in sent.columns], [None] * len(columns))


def test_a_number_that_was_given_before_is_no_new_columns() -> None:
    table = "1:id: 2:a: 4:b:"
    assert followed(table, "id a b y", f"{table} 6:z:", 6) is None  # 5, or 6
    assert followed(table, "id a b y", f"{table} 6:z:", 6, until=5) == "1 2 4 6"


def test_a_wide_table_is_followed() -> None:
    """1,600 columns are the most that a table can have."""
    before = " ".join(f"{at}:c{at}:" for at in range(2, 1591))
    left = [at for at in range(2, 1591) if at % 30]
    sent = " ".join([f"c{at}" for at in left] + ["n1591", "n1592"])
    now = " ".join(f"{at}:c{at}:" for at in left if at % 70) + " 1591:n1591: 1592:n1592: 1593:n:"
    assert followed(before, sent, now, 1593) == " ".join(map(str, [*left, 1591, 1592]))


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


@pytest.mark.parametrize("attnums", [(1, 2), (None, None)])
def test_a_treated_column_is_found_by_the_type_that_it_has_in_the_source(
    attnums: tuple[int | None, int | None],
) -> None:
    """Else a value that an update of the key left out would never be looked up."""
    kinds = (TypeInfo(INT4, "pg_catalog", "int4", "base", "int4"),
             TypeInfo(1043, "pg_catalog", "varchar", "base", "varchar"))  # fmt: skip
    key, doc = (
        Column(name, kind, -1, False, True, at)
        for name, kind, at in zip(("i", "doc"), kinds, attnums, strict=True)
    )
    columns = (key, with_treatment(doc, Treatment("mask", "***")))
    relation = Relation(16400, "public", "t", "d", columns, ("i",))
    assert present(relation, {1: ("i", INT4), 2: ("doc", 1043)}) == [1, 2]
    assert present(relation, {1: ("i", INT4), 2: ("doc", TEXT)}) == [1, None]
