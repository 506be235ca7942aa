"""What views do not know is refused with what to write instead, or with where that is listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc.errors import ViewError
from views.definition import parse_view
from views.resolve import resolve
from views.tables import TableColumn, TableVersion
from views.types import DATE, INT4, TEXT, TIMESTAMPTZ, PgType, array_of
from views.unknown import KNOWN

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
TABLE = TableVersion(
    "a" * 16,
    "public",
    "t",
    (
        TableColumn("id", INT4),
        TableColumn("note", TEXT),
        TableColumn("at", TIMESTAMPTZ),
        TableColumn("day", DATE),
        TableColumn("tags", array_of(TEXT)),
        TableColumn("extra", PgType("jsonb")),
    ),
    ("id",),
)


@pytest.mark.parametrize(
    ("condition", "reason", "hint"),
    [
        ("id in (select id from u)", "subqueries", "LEFT JOIN it and ask its key for IS NULL"),
        ("id not in (select id from u)", "subqueries", "join the table"),
        ("exists (select from u where u.id = t.id)", "subqueries", "join the table"),
        ("id = any (select id from u)", "subqueries", "join the table"),
        ("id > all (select id from u)", "subqueries", "join the table"),
        ("id = any ('{1,2}')", "elements of arrays", "write IN (…)"),
        ("id = any (array[1,2])", "elements of arrays", "write IN (…)"),
        ("id <> all (array[1,2])", "elements of arrays", "NOT IN for <> ALL"),
        ("'a' = any (tags)", "elements of arrays", "tags[1] is known"),
        ("'a' = some (tags)", "elements of arrays", "tags[1] is known"),
        ("note ~ 'a'", "not known", "like and ilike"),
        ("note similar to 'a'", "not known", "like and ilike"),
        ("(id, note) = (1, 'a')", "not known", "one by one, with AND"),
    ],
)
def test_conditions(condition: str, reason: str, hint: str) -> None:
    _refused(f"select id from t where {condition}", reason, hint)


@pytest.mark.parametrize(
    ("value", "reason", "hint"),
    [
        ("unnest(tags)", "the function unnest", "a table of their own"),
        ("to_char(at, 'YYYY')", "the function to_char", "date_trunc"),
        ("to_char(id, '999')", "the function to_char", "whoever reads"),
        ("array_length(tags, 1)", "the function array_length", "tags[1] is known"),
        ("cardinality(tags)", "the function cardinality", "tags[1] is known"),
        ("age(at)", "the function age", "a date minus a date"),
        ("age(at, at)", "the function age", "a date minus a date"),
        ("foo(note)", "the function foo", "docs/sql.md lists what is known"),
        ("own.foo(note)", "own.foo", "docs/sql.md lists what is known"),
        ("uper(note)", "the function uper", "did you mean upper? Else docs/sql.md"),
        ("initcap(note)", "the function initcap", "upper and lower"),
        ("power(id, 2)", "the function power", "whoever reads"),
        ("jsonb_array_elements(extra)", "jsonb_array_elements", "a table of their own"),
        ("row_to_json(t)", "row_to_json", "write json_build_object"),
        ("at + interval '1 day'", "timestamptz is not a number", "added to a date"),
        ("day + interval '1 day'", "not known", "added to a date|add days to a date"),
        ("note collate \"C\"", "not known", "min, max and ORDER BY"),
    ],
)  # fmt: skip
def test_values(value: str, reason: str, hint: str) -> None:
    _refused(f"select id, {value} as x from t", reason, hint)


def _refused(sql: str, reason: str, hint: str) -> None:
    with pytest.raises(ViewError) as caught:
        resolve(parse_view("v", "s", ["id"], sql), TABLE)
    assert caught.value.message.startswith("views.v.sql")
    assert reason in caught.value.message
    assert any(part in caught.value.hint for part in hint.split("|"))


def test_functions_that_may_be_meant_are_those_of_the_page() -> None:
    assert set(KNOWN) <= set(re.findall(r"`([a-z_0-9]+)`", PAGE.read_text(encoding="utf-8")))
