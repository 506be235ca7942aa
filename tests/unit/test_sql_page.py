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
from tests.declared import declared_tables
from views.definition import parse_view
from views.maintained import resolve_view

PAGE = (Path(__file__).parents[2] / "docs/sql.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
REFUSAL = re.compile(r"^(?:key = (.*)\n)?(select .*)\n    (views\..*)$", re.MULTILINE)


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
