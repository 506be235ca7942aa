"""What views do not know is refused with what to write instead, or with where that is listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc.errors import ViewError
from views.parse.definition import parse_view
from views.spark.expressions.unsupported import KNOWN
from views.spark.resolution import resolve
from views.table_versions import TableColumn, TableVersion
from views.types import DATE, INT4, TEXT, TIMESTAMPTZ, PgType, array_of

PAGE = Path(__file__).parents[4] / "docs" / "sql.md"
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
        ("id not in (select id from u)", "subqueries", "Join the table"),
        ("exists (select from u where u.id = t.id)", "subqueries", "Join the table"),
        ("id = any (select id from u)", "subqueries", "Join the table"),
        ("id > all (select id from u)", "subqueries", "Join the table"),
        ("id <> any ('{1,2}')", "by = any and <> all only", ""),
        ("id > all (array[1,2])", "by = any and <> all only", ""),
        ("id = any (array[]::int[])", "nothing is in this array", ""),
        ("id = any ('{1,null}')", "NULL in it", ""),
        ("note = any (array['a', id])", "quoted literals and others", "Write '…'::int4"),
        ("id = any (array[null])", "mixes int4 and text", "Write the cast"),
        ("id = any (array[1])::int[]", "by = any and <> all only", ""),
        ("day = any (array['2024-02-29'])", "mixes date and text", "Write the cast"),
        ("1 = any (tags)", "mixes int4 and text", "Write the cast"),
        ("'a' = any (note)", "text is no array", ""),
        ("note ~ 'a'", "not known", "ike and ilike"),
        ("note similar to 'a'", "not known", "ike and ilike"),
        ("(id, note) = (1, 'a')", "not known", "one by one, with AND"),
    ],
)
def test_conditions(condition: str, reason: str, hint: str) -> None:
    _refused(f"select id from t where {condition}", reason, hint)


@pytest.mark.parametrize(
    ("value", "reason", "hint"),
    [
        ("unnest(tags)", "the function unnest", "a table of their own"),
        ("to_char(at, 'YYYY')", "to_char of timestamptz", "AT TIME ZONE 'UTC'"),
        ("to_char(id, '999')", "to_char of int4", "::text"),
        ("to_char(day, 'YYYY-MMTH')", "not known from 'TH' on", "letters go in"),
        ("to_char(day, note)", "has to be a literal", ""),
        ("to_char(day, 'HH24')", "no time of day", ""),
        ("to_char(day, '')", "an empty template", ""),
        ("to_char(day, 'IDDD')", "not known from 'IDDD' on", ""),
        ("to_char(note, 'YYYY')", "to_char of text", ""),
        ("to_char(day)", "to_char takes other arguments", "with a template"),
        ("date_part(note, day)", "the field has to be a literal", ""),
        ("array_length(tags, 2)", "one dimension", ""),
        ("cardinality(extra)", "jsonb is no array", "jsonb_array_length"),
        ("array_append(tags, 'a')", "the function array_append", "cardinality"),
        ("array_to_string(tags, ',', note)", "has to be a literal", ""),
        ("trunc(id)", "is a float in PostgreSQL", "Leave it out"),
        ("age(at)", "the function age", " date minus a date"),
        ("age(at, at)", "the function age", " date minus a date"),
        ("foo(note)", "the function foo", "ee docs/sql.md for what is supported"),
        ("own.foo(note)", "own.foo", "ee docs/sql.md for what is supported"),
        ("uper(note)", "the function uper", "Did you mean upper? Otherwise see docs/sql.md"),
        ("initcap(note)", "the function initcap", "pper and lower"),
        ("power(id, 2)", "the function power", "whoever reads"),
        ("jsonb_array_elements(extra)", "jsonb_array_elements", "a table of their own"),
        ("row_to_json(t)", "row_to_json", "Write json_build_object"),
        ("at + interval '1 day'", "depends on the session's TimeZone", "or add hours"),
        ("day + interval '1 day 2 hours'", "this interval is not known", "interval '30 days'"),
        ("day + interval '1 day ago'", "this interval is not known", "interval '30 days'"),
        ("day + interval '1 day 02:03:04'", "this interval is not known", "interval '30 days'"),
        ("day + interval '90 minutes' hour", "this interval is not known", "interval '30 days'"),
        ("day + interval '\uff11 day'", "this interval is not known", "interval '30 days'"),
        ("day + interval '2000 years'", "this interval is too long", ""),
        ("extract(epoch from day - at)", "seconds from timestamptz to date", "::timestamp"),
        ("ifnull(note, '')", "the function ifnull", "Write coalesce"),
        ("nvl2(note, 'a', 'b')", "the function nvl2", "Write case when"),
        ("if(id > 1, 1, 2)", "the function if", "Write case when"),
        ("year(at)", "the function year", "Write extract(year from"),
        ("datediff(at, at)", "the function datediff", ""),
        ("array_contains(tags, 'a')", "the function array_contains", "= any"),
        ("convert(int, note)", "the function convert", ""),
        ("try_cast(note as int)", "the function try_cast", ""),
        ("array_size(tags)", "the function array_size", "Write cardinality"),
        ("tags::varchar(3)[]", "text[] is not cast to an array here", ""),
        ("cardinality(tags, 1)", "cardinality takes other arguments", ""),
        ("day = any ('{1}'::array)", "unknown is not cast to an array here", ""),
        ("case when id = 1 then tags[1][1] end", "text is no array", ""),
        ("tags::int[]", "text[] is not cast to an array here", ""),
        ("coalesce(tags, '{}'::int[])", "mixes text[] and int4[]", "Write the cast"),
        ("id + interval '1 day'", "an interval is not added to int4", ""),
        ("interval '1 day'", "not known", "placed + interval"),
        ("at - at", "timestamptz is not a number", "extract(epoch from a - b)"),
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
