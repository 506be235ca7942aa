"""A table's columns under the names that a generation of a view began with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cdc.errors import ViewError
from views.parse.definition import parse_view
from views.spark.generation_names import (
    Naming,
    begun,
    called_now,
    exchanged,
    grown,
    is_unproven,
    seen,
)
from views.spark.resolution import resolve
from views.spark.view import resolve_view
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, PgType

OID = 16400


def table(*columns: tuple[int | None, str], key: str = "id", oid: int = OID) -> TableVersion:
    """A version by what its columns keep and what they are called."""
    made = tuple(TableColumn(name, INT4, name != key, attnum) for attnum, name in columns)
    id_ = json.dumps([[column.name for column in made], key])
    return TableVersion(id_, "public", "t", made, (key,), oid)


WAS = table((1, "id"), (2, "a"), (3, "b"))
NAMING = begun(WAS)


def names(version: TableVersion) -> list[str]:
    return [column.name for column in version.columns]


def sent(version: TableVersion, *columns: str) -> list[str | None]:
    return [version.sent(column) for column in columns]


def test_a_version_with_the_same_names_is_seen_as_it_is() -> None:
    assert seen(WAS, NAMING) is WAS
    assert sent(WAS, "a", "c") == ["a", None]


def test_a_renamed_column_keeps_the_name_that_the_view_began_with() -> None:
    now = seen(table((1, "id"), (2, "x"), (3, "b")), NAMING)
    assert (names(now), sent(now, "a", "b")) == (["id", "a", "b"], ["x", "b"])
    assert called_now(now) == {"a": "x"}
    assert now.describe() == "id int4, x int4, b int4"


def test_swapped_names_are_told_apart() -> None:
    now = seen(table((1, "id"), (2, "b"), (3, "a")), NAMING)
    assert (names(now), sent(now, "a", "b")) == (["id", "a", "b"], ["b", "a"])


def test_a_key_column_is_followed_as_well() -> None:
    now = seen(table((1, "no"), (2, "a"), (3, "b"), key="no"), NAMING)
    assert (now.key, sent(now, "id")) == (("id",), ["no"])


def test_a_new_column_of_an_old_name_is_not_seen_by_it() -> None:
    now = table((1, "id"), (2, "x"), (3, "b"), (4, "a"))
    now = seen(now, grown(NAMING, [now]))
    assert (names(now), sent(now, "a")) == (["id", "a", "b"], ["x"])
    assert now.replaced == ()


def test_a_column_that_came_later_keeps_the_name_that_it_came_with() -> None:
    came = table((1, "id"), (2, "a"), (3, "b"), (4, "c"))
    naming = grown(NAMING, [WAS, came])
    now = seen(table((1, "id"), (2, "a"), (3, "b"), (4, "d")), naming)
    assert (names(now), sent(now, "c")) == (["id", "a", "b", "c"], ["d"])


def test_another_column_in_the_place_of_one_that_was_dropped_is_not_it() -> None:
    now = seen(table((1, "id"), (3, "b"), (4, "x")), NAMING)
    assert now.column("a") is None
    dropped = table((1, "id"), (3, "b"), (4, "a"))
    for sql in ("select id, a from t", "select * from t"):
        with pytest.raises(ViewError, match=r"public\.t has another column of that name now"):
            resolve(parse_view("v", "s", ("id",), sql), seen(dropped, NAMING))
    joined = "select t.id, a, u.name from t join u on u.id = t.id"
    other = replace(table((1, "id"), (2, "name")), table="u")
    definition = parse_view("v", "s", ("id",), joined)
    tables = {"public.t": seen(dropped, NAMING), "public.u": other}
    with pytest.raises(ViewError, match=r"public\.t has another column of that name now"):
        resolve_view(definition, tables)


def test_another_key_is_not_taken_for_the_old_one() -> None:
    now = seen(table((1, "id"), (2, "a"), (3, "b"), (4, "no"), key="no"), NAMING)
    assert now.key != WAS.key
    hidden = table((1, "x"), (2, "a"), (3, "b"), (4, "id"), key="id")
    assert seen(hidden, NAMING).key == ("id (another column)",)


@pytest.mark.parametrize(
    "version",
    [
        table((None, "id"), (None, "x"), (None, "b")),
        table((1, "id"), (2, "x"), (3, "b"), oid=OID + 1),
    ],
    ids=["attnums are not known", "another table"],
)
def test_names_are_all_there_is_of_other_versions(version: TableVersion) -> None:
    assert seen(version, NAMING) is version


def test_a_table_that_was_made_anew_has_the_names_that_it_came_with() -> None:
    """What attnums were of the first table they are not of this one."""
    anew = table((1, "id"), (2, "b"), (3, "a"), oid=OID + 1)
    swapped = table((1, "id"), (2, "a"), (3, "b"), (4, "c"), oid=OID + 1)
    naming = grown(grown(NAMING, [anew]), [anew, swapped])
    assert seen(anew, naming) is anew
    now = seen(swapped, naming)
    assert (names(now), sent(now, "a", "b", "c")) == (["id", "b", "a", "c"], ["b", "a", "c"])
    assert sent(seen(table((1, "id"), (2, "x"), (3, "b")), naming), "a") == ["x"]
    unknown = table((None, "id"), (None, "a"), (None, "b"), oid=OID + 1)
    assert is_unproven(unknown, naming)
    third = table((1, "id"), (2, "a"), oid=OID + 2)
    assert seen(third, grown(naming, [third])) is third


def test_columns_that_are_not_certain_are_not_read_by_their_names() -> None:
    unknown = table((None, "id"), (None, "a"), (None, "b"))
    assert is_unproven(unknown, NAMING)
    for other in (WAS, replace(unknown, oid=OID + 1), replace(unknown, oid=0)):
        assert not is_unproven(other, NAMING)
    assert not is_unproven(unknown, begun(unknown))


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("select id, A as x from t where c > 1", {"id", "a", "c"}),
        ("select * from t", None),
        ("select u.id, v.x from u left join v on v.n = u.id", {"id", "x", "n"}),
        ('select u.id, v.x from u join v using (n, "M")', {"id", "x", "n", "M"}),
        ("select u.id, v.x from u left join v on v.u = u.id", None),  # `u` may be a row of u
    ],
)
def test_the_columns_that_a_view_names(sql: str, named: set[str] | None) -> None:
    assert parse_view("v", "s", ("id",), sql).columns_named == named


def test_a_version_whose_names_are_others_columns_now_is_told() -> None:
    """Of one ``schema_id``: a dropped, b renamed to a, another b added."""
    first = replace(table((1, "id"), (2, "a"), (3, "b")), schema_id="one")
    shifted = replace(first, columns=table((1, "id"), (3, "a"), (4, "b")).columns)
    naming = grown(begun(first), [first])
    assert exchanged(naming, [first]) == []
    assert exchanged(grown(naming, [shifted]), [shifted]) == ["a"]
    # A new column in the place of the last one is none of the generation's: who reads it stops.
    replaced = replace(first, columns=table((1, "id"), (2, "a"), (4, "b")).columns)
    after = grown(naming, [replaced])
    assert exchanged(after, [replaced]) == []
    assert seen(replaced, after).column("b") is None
    assert exchanged(naming, [replace(shifted, oid=OID + 1)]) == []


def test_attnums_of_the_first_version_may_become_known_later() -> None:
    unknown = table((None, "id"), (None, "a"), (None, "b"), oid=0)
    naming = begun(unknown)
    assert naming == Naming(WAS.schema_id, 0, {})
    renamed = table((1, "id"), (2, "x"), (3, "b"))
    assert grown(naming, [unknown, renamed]) == naming
    assert seen(renamed, naming) is renamed
    assert grown(naming, [renamed, WAS]) == grown(NAMING, [renamed])


def test_a_type_that_changed_is_the_versions_own() -> None:
    wide = PgType("int8")
    renamed = table((1, "id"), (2, "x"), (3, "b"))
    changed = replace(
        renamed, columns=tuple(column._replace(type=wide) for column in renamed.columns)
    )
    found = seen(changed, NAMING).column("a")
    assert found is not None
    assert found.type == wide
