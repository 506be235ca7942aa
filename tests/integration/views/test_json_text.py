"""Parts of JSON texts as we cut them out, and as a real PostgreSQL does: the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg.types.string import TextLoader

from views.spark.expressions.json_text import Step, UnfitJsonError, kind, length, part, part_as_text
from views.spark.expressions.text_functions import REFUSED, answering, asking

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def connection(postgres: str) -> Iterator[Connection]:
    with psycopg.connect(postgres, autocommit=True) as conn:
        for name in ("json", "jsonb"):
            conn.adapters.register_loader(name, TextLoader)
        yield conn


_SPACE = st.sampled_from(("", "", "", " ", "\n\t "))
_NAMES = ("a", "b", "", "a.b", 'q"', "[0]", "0", "-1", " 1", "é", "\U0001f600", "\\", "$")
_CHARACTERS = (
    *(r"\"", r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t", r"\u001f", r"\u0041"),
    *("\\u00e9", "\\ud83d\\ude00", "a", "é", "\U0001f600", "{", "}", "[", "]", ",", ":", "."),
)
_UNFIT = (r"\u0000", r"\ud83d", r"\ude00", r"\ud83d\u0041", r"\ud83dx\ude00")


def _string(unfit: bool) -> st.SearchStrategy[str]:
    parts = st.sampled_from((*_CHARACTERS, *(_UNFIT if unfit else ())))
    return st.lists(parts, max_size=5).map(lambda found: f'"{"".join(found)}"')


_NUMBERS = st.sampled_from(
    ("0", "-0", "1", "1.0", "1.50", "-1.5e3", "1e2", "1E+2", "1e-7", "9007199254740993",
     "123456789012345678901234567890.10", "0.1000", "5e400")
)  # fmt: skip


def _written(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


_FIELD_NAMES = st.sampled_from([*map(_written, _NAMES), r'"a"', r'"\u0062"'])


def _texts(unfit: bool) -> st.SearchStrategy[str]:
    scalars = st.one_of(_NUMBERS, _string(unfit), st.sampled_from(("true", "false", "null")))
    return st.recursive(scalars, lambda inner: _containers(inner), max_leaves=12)


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    spaced = st.tuples(_SPACE, inner, _SPACE).map("".join)
    fields = st.tuples(_SPACE, _FIELD_NAMES, _SPACE, st.just(":"), spaced).map("".join)
    arrays = st.lists(spaced, max_size=4).map(lambda found: f"[{','.join(found)}]")
    empty = st.sampled_from(("{}", "[]", "{ }", "[ \n]"))
    objects = st.lists(fields, max_size=4).map(lambda found: "{" + ",".join(found) + "}")
    return st.one_of(arrays, objects, objects, empty)


_PATH = st.lists(st.sampled_from((*_NAMES, "+1", "1 ", "-2", "2147483648", "a")), max_size=3)
_OPERATORS = st.one_of(
    st.sampled_from(_NAMES).map(lambda name: ("->", name)),
    st.sampled_from((0, 1, -1, -2, 5, -2147483648)).map(lambda number: ("->", number)),
    _PATH.map(lambda names: ("#>", names)),
)
Operators = list[tuple[str, Any]]


def _steps(operators: Operators, binary: bool) -> list[Step]:
    found = []
    for sign, of in operators:
        if sign == "->":
            found.append(Step("field" if isinstance(of, str) else "element", of))
        elif binary or len(of) < 2:
            found += [Step("either", name) for name in of]
        else:
            found.append(Step("path", of))
    return found


def _asked(conn: Connection, text: str, operators: Operators, kind_: str, as_text: bool) -> Any:
    sql, values = f"%s::{kind_}", [text]
    for i, (sign, of) in enumerate(operators):
        last = as_text and i == len(operators) - 1
        type_ = {"#>": "text[]"}.get(sign, "text" if isinstance(of, str) else "int")
        sql += f" {sign}{'>' if last else ''} %s::{type_}"
        values.append(of)
    return conn.execute(f"select ({sql})::text".encode(), values).fetchone()


_LITTLE = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_LITTLE
@given(_texts(unfit=True), st.lists(_OPERATORS, min_size=1, max_size=3), st.booleans())
@example("[[1,2],[1,2,3]]", [("#>", ["1", "-1"])], False)
@example('{"a":{"b":1},"a":{"c":2}}', [("#>", ["a", "b"])], False)
@example('{"a":[1,2],"a":[1,2,3]}', [("#>", ["a", "-1"])], True)
@example("5", [("->", 0)], False)
@example('["x"]', [("->", 0), ("->", -1)], True)
@example('{"a":1,"a":null}', [("->", "a")], True)
def test_parts_are_what_postgresql_gives(
    connection: Connection, text: str, operators: Operators, as_text: bool
) -> None:
    for type_ in ("json", "jsonb"):
        try:
            row = connection.execute(f"select %s::{type_}::text".encode(), [text]).fetchone()
        except psycopg.DataError:  # jsonb refuses what json keeps
            assert type_ == "jsonb"
            continue
        assert row is not None
        find = part_as_text if as_text else part
        try:
            (expected,) = _asked(connection, text, operators, type_, as_text)
        except psycopg.DataError:
            with pytest.raises(UnfitJsonError):
                find(row[0], _steps(operators, type_ == "jsonb"), type_ == "jsonb")
        else:
            found = find(row[0], _steps(operators, type_ == "jsonb"), type_ == "jsonb")
            assert found == expected, (type_, row[0])


@_LITTLE
@given(_texts(unfit=True))
def test_lengths_and_kinds_are_what_postgresql_gives(connection: Connection, text: str) -> None:
    row = connection.execute("select json_typeof(%s::json)", [text]).fetchone()
    assert row == (kind(text),)
    try:
        row = connection.execute("select json_array_length(%s::json)::text", [text]).fetchone()
    except psycopg.DataError:
        with pytest.raises(UnfitJsonError):
            length(text)
    else:
        assert row == (length(text),)


@_LITTLE
@given(_texts(unfit=False), _texts(unfit=False), st.sampled_from((*_NAMES, "x")))
@example('["a", 1]', "1.0", "a")
@example("1", "[1]", "1")
@example('{"a": [1, [2, 3]]}', '{"a": [[3], 1e0]}', "a")
def test_containment_is_what_postgresql_finds(
    connection: Connection, text: str, wanted: str, name: str
) -> None:
    sql = "select d::text, (d @> %s::jsonb)::text, (d ? %s)::text from (select %s::jsonb as d) as t"
    row = connection.execute(sql, [wanted, name, text]).fetchone()
    assert row is not None
    assert answering(asking("contains", (), True, wanted))(row[0]) == row[1]
    assert answering(asking("has", (), True, name))(row[0]) == row[2]


_DIGITS = st.text("0123456789", max_size=40)
_NUMERALS = st.tuples(
    st.sampled_from(("", " ", "\t")), st.sampled_from(("", "-", "+")), _DIGITS,
    st.sampled_from(("", ".")), _DIGITS,
    st.sampled_from(("", "e5", "E-3", "e+0", "e-40", "x", "e")),
).map("".join)  # fmt: skip


@_LITTLE
@given(_NUMERALS)
def test_a_text_becomes_the_numeric_that_postgresql_makes_of_it(
    connection: Connection, text: str
) -> None:
    try:
        row = connection.execute("select %s::text::numeric::text", [text]).fetchone()
    except psycopg.DataError:
        row = (REFUSED,)
    assert row == (answering(asking("numeric"))(text),)


def test_depth_is_no_limit(connection: Connection) -> None:
    text = "[" * 3000 + '{"a": 1.0}' + "]" * 3000
    operators = [("->", 0)] * 3
    row = _asked(connection, text, operators, "jsonb", True)
    assert row == (part_as_text(text, _steps(operators, True), True),)
