"""What DDL made of a table: two versions compared, and what events of each call the columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from cdc.errors import LogError
from cdc.protocol.relation import TypeInfo
from jobs.state.batch.staging import Mirror
from jobs.state.mirrors.mirror_versions import seen_versions, unread
from jobs.state.mirrors.schemas_topic import SentVersion, parse_version
from jobs.state.mirrors.table import (
    NOWHERE,
    MirrorColumn,
    MirrorTable,
    has_one_text,
    table_json,
    with_columns,
)
from jobs.state.mirrors.table_changes import (
    Changes,
    Refill,
    changes,
    held_versions,
    older,
    shape,
    shapes,
    to_follow,
)

INT = TypeInfo(23, "pg_catalog", "int4", "base", "int4")
TEXT = TypeInfo(25, "pg_catalog", "text", "base", "text")
Named = tuple[str, int | None, TypeInfo]


def mirror(*columns: Named, key: tuple[str, ...] = ("id",), oid: int = 7) -> MirrorTable:
    held = tuple(
        MirrorColumn(name, attnum, kind, -1, kind.name, name not in key)
        for name, attnum, kind in columns
    )
    names = tuple((name, attnum or 0) for name, attnum, _ in columns)
    highest = max(attnum or 0 for _, attnum, _ in columns)
    return MirrorTable(
        "public", "t", oid, "own", held, key, highest=highest, versions=(("own", names),)
    )


def version(
    id: str, *columns: Named, key: tuple[str, ...] = ("id",), oid: int = 7, lsn: int = 1
) -> SentVersion:
    described: list[dict[str, Any]] = [
        {"name": name, "attnum": attnum, "oid": kind.oid, "type_schema": kind.schema}
        | {"type": kind.name, "typmod": -1, "element": None}
        for name, attnum, kind in columns
    ]
    record = {"schema_id": id, "table_oid": oid, "columns": described, "key": list(key), "lsn": lsn}
    return parse_version(record)


ID, A, B = ("id", 1, INT), ("a", 2, TEXT), ("b", 3, TEXT)
TABLE = mirror(ID, A, B)


def found(*columns: Named, **other: Any) -> Changes | Refill:
    return changes(TABLE, version("v", *columns, **other))


def test_the_same_columns_need_nothing() -> None:
    same = found(ID, A, B)
    assert isinstance(same, Changes)
    assert same.none


def test_drops_renames_and_additions() -> None:
    told = found(ID, ("x", 3, TEXT), ("a", 4, INT))
    assert isinstance(told, Changes)
    assert [column.name for column in told.dropped] == ["a"]
    assert [(column.name, name) for column, name in told.renamed] == [("b", "x")]
    assert [(column.name, column.attnum) for column in told.added] == [("a", 4)]
    assert not told.none


def test_another_type_is_told() -> None:
    told = found(ID, ("a", 2, INT), B)
    assert isinstance(told, Changes)
    assert [(column.name, sent.type_name) for column, sent in told.retyped] == [("a", "int4")]


@pytest.mark.parametrize(("oid", "typmod"), [(1043, 14), (23, -1)])
def test_another_type_of_a_treated_column_is_told_which_is_text_before_and_after(
    oid: int, typmod: int
) -> None:
    held = replace(TABLE.columns[1], treatment="mask ***", source_oid=1043, source_typmod=24)
    same = version("v", ID, A, B)
    sent = same.columns[1]._replace(treatment="mask ***", source_oid=1043, source_typmod=24)
    for column, told in ((sent, []), (sent._replace(source_oid=oid, source_typmod=typmod), ["a"])):
        columns = same.columns[0], column, same.columns[2]
        table = replace(TABLE, columns=(TABLE.columns[0], held, TABLE.columns[2]))
        seen = changes(table, same._replace(columns=columns))
        assert isinstance(seen, Changes)
        assert [one.name for one, _ in seen.retyped] == told


@pytest.mark.parametrize(
    ("columns", "other", "reason"),
    [
        ((ID, A, B), {"oid": 8}, "made again"),
        ((ID, A, B), {"key": ("a",)}, "another key"),
        ((("id", None, INT), ("x", None, TEXT)), {}, "not certain"),
        ((ID, A), {"key": ("id", "a")}, "another key"),
    ],
)
def test_what_needs_a_fill(columns: tuple[Named, ...], other: dict[str, Any], reason: str) -> None:
    told = found(*columns, **other)
    assert isinstance(told, Refill)
    assert reason in told.reason


def test_a_column_that_was_there_but_not_published_needs_a_fill() -> None:
    table = replace(TABLE, highest=5)
    told = changes(table, version("v", ID, A, B, ("late", 4, INT)))
    assert isinstance(told, Refill)
    assert "late" in told.reason
    kept_out = replace(table, left_out=(("late", "ragged"),))
    told = changes(kept_out, version("v", ID, A, B, ("late", 4, INT)))
    assert isinstance(told, Changes)
    assert told.none


def test_a_version_without_numbers_is_known_by_its_names() -> None:
    unnumbered = version("v", ("id", None, INT), ("a", None, TEXT), ("b", None, TEXT))
    same = changes(TABLE, unnumbered)
    assert isinstance(same, Changes)
    assert same.none
    assert shape(TABLE, unnumbered) == ("id", "a", "b")


def test_what_events_call_the_columns() -> None:
    versions = [
        version("own", ("id", None, INT), ("a", None, TEXT)),  # capture could not tell: we know
        version("before", ID, ("old", 2, TEXT)),
        version("other table", ID, A, oid=9),
        version("uncertain", ("id", None, INT), ("z", None, TEXT)),
    ]
    assert shapes(TABLE, versions) == {"own": ("id", "a", "b"), "before": ("id", "old", None)}


def test_the_version_to_follow_is_the_newest_that_was_seen() -> None:
    own = version("own", ID, A, B, lsn=10)
    two, three = version("two", ID, A, lsn=20), version("three", ID, lsn=30)
    versions = {one.schema_id: one for one in (own, version("old", ID, lsn=5), two, three)}
    assert to_follow(TABLE, versions, {"own", "old"}) is None
    assert to_follow(TABLE, versions, {"own", "two", "three"}) is three
    assert to_follow(TABLE, versions, {"two"}) is two
    assert to_follow(TABLE, {"two": two}, {"two"}) is two
    assert to_follow(TABLE, {}, {"not described yet"}) is None


def test_a_column_that_was_renamed_and_renamed_back_keeps_its_name() -> None:
    """Its version is described once more: later, or in the same transaction behind the other."""
    other = version("other", ID, A, ("x", 3, TEXT), lsn=20)
    for lsn in (20, 30):
        back = {"other": other, "own": version("own", ID, A, B, lsn=lsn)}
        assert to_follow(TABLE, back, {"own", "other"}) is None
        assert to_follow(TABLE, back, {"other"}) is None, "events of its old version are to come"
    renamed = replace(TABLE, schema_id="other", columns=mirror(ID, A, ("x", 3, TEXT)).columns)
    assert older(renamed, back) == set()
    # Its events may have come before it was seen that they are not late ones.
    assert to_follow(renamed, back, held_versions(renamed)) is back["own"]
    assert to_follow(TABLE, back, held_versions(TABLE)) is None
    assert not held_versions(replace(renamed, read_lsn=40))


@pytest.mark.parametrize(
    "columns",
    [(ID, A, B), (("a", 1, INT), ("id", 2, TEXT), B)],
    ids=["the key is made again", "its columns have exchanged their names"],
)
def test_a_key_in_another_order_is_another_one_in_events(columns: tuple[Named, ...]) -> None:
    table = mirror(ID, A, B, key=("id", "a"))
    then = version("other", *columns, key=("a", "id"), lsn=20)
    refill = changes(table, then)
    assert isinstance(refill, Refill)
    assert "its key (id, a) is called (a, id) in events" in refill.reason
    own = version("own", ID, A, B, key=("id", "a"), lsn=10)
    assert older(replace(table, schema_id="other", key=then.key), {"own": own, "other": then}) == (
        frozenset()
    )
    assert isinstance(changes(table, own), Changes)


def test_events_that_call_the_key_otherwise_are_followed_by_a_fill() -> None:
    other = version("other", ("no", 1, INT), A, B, key=("no",), lsn=20)
    told = changes(TABLE, other)
    assert isinstance(told, Refill)
    assert "(id) is called (no)" in told.reason
    late = {"other": other, "own": version("own", ID, A, B, lsn=30)}
    assert older(TABLE, late) == set(), "nor is it left at that where they come late"


def test_the_versions_of_a_batch_s_events() -> None:
    rows = [
        ("s.public.t", "own", 100),
        ("s.public.t", "below the fill", 99),
        ("s.public.t", "new", 98),
        ("s.public.t", "new", 101),
        ("s.public.t", None, None),
        ("s.public.other", "x", 200),
    ]
    columns = {
        name: [row[i] for row in rows]
        for i, name in enumerate(("topic", "schema_id", "commit_lsn"))
    }
    mirrors = {"public.t": Mirror(1, TABLE, 100, NOWHERE, {"own": ("id", "a", "b")})}
    seen = seen_versions(pa.table(columns), {"s.public.t": "public.t"}, mirrors)
    assert seen == {"public.t": {"own", "new"}}
    assert unread(mirrors, seen)
    assert not unread(mirrors, {"public.t": {"own"}})
    of_catalog = {"public.t": Mirror(1, TABLE, 100, NOWHERE, {})}
    assert unread(of_catalog, {"public.t": {"own"}}), "capture had not described it"


def test_what_the_catalog_told_is_newer_than_what_was_described_by_then() -> None:
    table = replace(mirror(ID, A, B), schema_id="read", versions=(), read_lsn=50)
    before = {"before": version("before", ID, A, lsn=40)}
    late = {"late": version("late", ID, lsn=60)}
    assert older(table, before | late) == {"before"}
    assert to_follow(table, before | late, {"before"}) is None
    assert to_follow(table, before | late, {"before", "late"}) is late["late"]
    stale = {"read": version("read", ID, A, ("b", 9, TEXT), lsn=30)}
    assert to_follow(table, before | stale, {"before", "read"}) is None
    told = {"read": version("read", ID, A, B, lsn=55)}
    assert to_follow(table, before | told, {"read"}) is told["read"], "from now on it is its own"
    unsure = version("unsure", ("id", None, INT), ("a", None, TEXT), ("b", None, TEXT), lsn=40)
    assert shape(table, unsure) is None
    assert shape(table, unsure._replace(lsn=60)) == ("id", "a", "b")


def test_a_version_that_is_described_otherwise_is_followed() -> None:
    swapped = version("own", ID, ("a", 4, TEXT), B)
    assert to_follow(TABLE, {"own": swapped}, set()) is swapped
    told = changes(TABLE, swapped)
    assert isinstance(told, Refill)
    assert "do not tell" in told.reason


def test_a_record_that_is_no_version() -> None:
    with pytest.raises(LogError, match="lacks 'columns'"):
        parse_version({"schema_id": "x"})


def test_a_mirror_is_recorded_whole() -> None:
    of_array = TypeInfo(1, "pg_catalog", "_text", "array", "array", -1, TEXT)
    column = MirrorColumn("list", 4, of_array, -1, "text[]", missing="{}", collation='"C"')
    table = replace(TABLE, columns=(*TABLE.columns, column), files="1,2")
    empty = replace(table, columns=(), highest=0, files="", versions=())
    assert with_columns(empty, table_json(table)) == table


def test_types_whose_keys_have_one_text() -> None:
    assert has_one_text(INT, -1)
    assert has_one_text(INT._replace(base="numeric"), 655366)
    assert not has_one_text(INT._replace(base="numeric"), -1)
    assert not has_one_text(INT._replace(base="citext"), -1)
    assert not has_one_text(INT._replace(kind="composite"), -1)
