"""Every example of docs/sql.md is what it says: the columns that come out, or the refusal."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from cdc.errors import ViewError
from tests.support.events.declared_tables import declared_tables
from views.parse.definition import parse_view
from views.spark.view import resolve_view

PAGE = (Path(__file__).parents[3] / "docs/sql.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
REFUSAL = re.compile(r"^(?:key = (.*)\n)?(select .*)\n    (views\..*)$", re.MULTILINE)

TAKEN = set(re.findall(r"`([a-z_0-9]+)`", PAGE.partition("| of | what")[2].partition("\n\n")[0]))
SAMPLES = {
    "and": "shipped and id = 1", "or": "shipped or id = 1", "not": "not shipped",
    "between": "total between 1 and 2", "like": "note like 'a%'", "ilike": "note ilike 'a%'",
    "case": "case when shipped then 1 else 2 end", "coalesce": "coalesce(note, '')",
    "nullif": "nullif(note, '')", "greatest": "greatest(total, 1)", "least": "least(id, 1)",
    "abs": "abs(total)", "ceil": "ceil(total)", "floor": "floor(total)", "round": "round(total, 1)",
    "trunc": "trunc(total)", "date_part": "date_part('year', placed at time zone 'UTC')",
    "to_char": "to_char(placed at time zone 'UTC', 'YYYY-MM')", "cardinality": "cardinality(tags)",
    "array_length": "array_length(tags, 1)", "array_upper": "array_upper(tags, 1)",
    "some": "note = some ('{a,b}')",
    "array_to_string": "array_to_string(tags, ',')",
    "concat": "concat(note, id)", "concat_ws": "concat_ws('-', note, id)", "lower": "lower(note)",
    "upper": "upper(note)", "length": "length(note)", "left": "left(note, 2)",
    "right": "right(note, 2)", "substring": "substring(note from 2 for 3)",
    "split_part": "split_part(note, '-', 2)", "position": "position('a' in note)",
    "strpos": "strpos(note, 'a')", "replace": "replace(note, 'a', 'b')",
    "translate": "translate(note, 'ab', 'cd')", "trim": "trim(note)", "ltrim": "ltrim(note)",
    "rtrim": "rtrim(note, 'x')", "lpad": "lpad(note, 5)", "rpad": "rpad(note, 5, '.')",
    "repeat": "repeat(note, 2)", "reverse": "reverse(note)", "md5": "md5(note)",
    "jsonb_array_length": "jsonb_array_length(extra -> 'items')",
    "jsonb_typeof": "jsonb_typeof(extra)",
    "starts_with": "starts_with(note, 'a')",
    "extract": "extract(month from placed at time zone 'UTC')",
    "date_trunc": "date_trunc('month', placed at time zone 'UTC')",
    "timestamptz": "placed > '2024-02-29 12:00:00+00'",
    "uuid": "'6bf1b6f0-3a07-4d55-8d2c-2f3c1a0d9f10'::uuid",
}  # fmt: skip


class Example(NamedTuple):
    """A view of the page, and what the page says of it."""

    name: str
    key: list[str]
    sql: str
    said: str


TABLES = declared_tables("".join(text for language, text in BLOCKS if language == "sql"))


def accepted() -> Iterator[Example]:
    """The declarations, each with the block behind it."""
    for (language, text), (_, said) in pairwise(BLOCKS):
        if language == "toml":
            for name, view in tomllib.loads(text)["views"].items():
                yield Example(name, view["key"], view["sql"], said.strip())


def refused() -> Iterator[Example]:
    """Statements and, indented below, what is said of them; ``key = …`` above if it is not id."""
    for key, sql, said in REFUSAL.findall(PAGE):
        yield Example("v", json.loads(key or '["id"]'), sql, said)


ACCEPTED, REFUSED = list(accepted()), list(refused())


def test_the_page_has_examples() -> None:
    assert len(ACCEPTED) >= 6
    assert len(REFUSED) >= 20


@pytest.mark.parametrize("example", ACCEPTED, ids=lambda example: example.name)
def test_a_view_has_the_columns_that_the_page_shows(example: Example) -> None:
    view = resolve_view(parse_view(example.name, "s", example.key, example.sql), TABLES)
    assert view.describe() == example.said


@pytest.mark.parametrize("example", REFUSED, ids=lambda example: example.sql)
def test_a_refusal_reads_as_the_page_shows(example: Example) -> None:
    with pytest.raises(ViewError) as refusal:
        resolve_view(parse_view(example.name, "s", example.key, example.sql), TABLES)
    assert str(refusal.value) == example.said


def test_there_is_a_sample_of_everything_that_is_taken() -> None:
    assert set(SAMPLES) == TAKEN


@pytest.mark.parametrize("sample", SAMPLES.values())
def test_what_is_said_to_be_taken_is_taken(sample: str) -> None:
    resolve_view(parse_view("v", "s", ["id"], f"select id, {sample} as x from orders"), TABLES)
