"""Conditions: what parses, what fits a table, and which rows and changes meet them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.protocol.relation import Relation
from headwater.conditions.condition import (
    Compare,
    Condition,
    ConditionError,
    IsNull,
    Not,
    Reference,
    UndecidedError,
)
from headwater.conditions.decide import Image, holds, meets
from headwater.conditions.fit import fitted_to_rows
from headwater.conditions.parse import parse_condition
from tests.unit.headwater.conditions.orders import FULL, KEYLESS, ORDERS, ROW

STATUS = Reference("", "status")


def met(text: str, row: dict[str, Any] = ROW, relation: Relation = ORDERS) -> bool:
    return holds(fitted_to_rows(parse_condition(text), relation), row)


@pytest.mark.parametrize(
    "text",
    [
        "id = 7",
        "id=7 and status='open'",
        "ID <> 8 AND total > 1000",
        "total >= 1000.5 and total <= 1000.50",
        "total < 1e4",
        "weight = 0.1",
        "paid = true",
        "paid != false",
        "status is not null",
        "\"Odd name\" = '6F8B3C1E-0000-4000-8000-00000000000A'",
        "id > -1",
        "at is not null",
        "id = 8 or id = 7",
        "not (id = 8 or status = 'closed')",
        "not not id = 7",
        "id in (1, 7)",
        "id not in (1, 2)",
        "status not in ('closed')",
        "id = 7 or total = 1 and total = 2",
        "status is distinct from 'closed'",
        "id = id and not id <> id",
        "total > id",
        "weight is not distinct from weight",
    ],
)
def test_a_row_meets_the_condition(text: str) -> None:
    assert met(text)


@pytest.mark.parametrize(
    "text",
    [
        "id = 8",
        "status <> 'open'",
        "total < 1000.5",
        "paid = false",
        "id = 7 and id = 8",
        "weight > 0.1",
        "status is null",
        "not id = 7",
        "id not in (1, 7)",
        "(id = 7 or total = 1) and total = 2",
        "status is distinct from 'open'",
    ],
)
def test_a_row_does_not(text: str) -> None:
    assert not met(text)


@pytest.mark.parametrize("text", ["status = 'x'", "status <> 'x'", "total < 5", "total > 5"])
def test_nothing_compares_with_null(text: str) -> None:
    assert not met(text, {**ROW, "status": None, "total": None})
    assert met("status is null", {**ROW, "status": None})


@pytest.mark.parametrize(
    ("value", "above"), [("NAN", True), ("POSITIVE_INFINITY", True), ("NEGATIVE_INFINITY", False)]
)
def test_numbers_without_digits_are_ordered_as_postgresql_orders_them(
    value: str, above: bool
) -> None:
    assert met("total > 1e100", {**ROW, "total": value}) == above
    assert met("total < 5", {**ROW, "total": value}) != above


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id",
        "id =",
        "= 7",
        "id = 7 and",
        "(id = 7",
        "id = 7)",
        "id in ()",
        "id in (7",
        "id in (id)",
        "id not = 7",
        "id is 7",
        "status like 7",
        "status like 'a\\'",
        "or id = 7",
        "id = 7 or",
        "after.",
        "other.id = 7",
        "(" * 400 + "id = 7" + ")" * 400,
        "not " * 200 + "id = 7",
        "id in (" + ", ".join("7" * 21) + ")",
        "id = 7; drop table orders",
        "id = 7 -- comment",
        "status = 'open",
        "id = 0x10",
        "id = 1e9999",
        "null is null",
        "id == 7",
        "id = 7 status = 'x'",
        "lower(status) = 'x'",
        "status = 'a' || 'b'",
        "id = 7\0",
        " and ".join(["id = 7"] * 21),
        "status = '" + "a" * 1_000 + "'",
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        parse_condition(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id = 7 and nowhere = 1", "at character 12: public.orders has no column nowhere"),
        ("after.id = 7", "rows, which have no after.id"),
        ("status like 'a%'", "may leave out"),
        ("id like 'a%'", "not compared"),
        ("status = total", "not compared"),
        ('status = "open"', "no column open"),
        ("status < status", "order"),
        ("status = status", "may leave out"),
        ("id = '7'", "not compared"),
        ("status = 7", "not compared"),
        ("status > 'a'", "order is that of a collation"),
        ("paid > true", "not compared"),
        ("at = 'x'", "not compared"),
        ("code = 'a'", "not compared"),
        ("\"Odd name\" = 'x'", "UUID"),
        ("status = 'a text of 21 bytes or so'", "may leave out"),
    ],
)
def test_what_does_not_fit_the_table_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConditionError, match=said):
        met(text)


def test_a_long_text_is_compared_where_no_value_is_left_out() -> None:
    assert not met("status = 'a text of more than twenty bytes'", relation=FULL)


def test_a_table_without_a_key_takes_no_filter() -> None:
    with pytest.raises(ConditionError, match="no key"):
        met("id = 7", relation=KEYLESS)


def test_a_value_that_was_left_out_is_longer_than_any_literal() -> None:
    def of(sign: str, literal: str = "open") -> bool:
        return holds(Compare(STATUS, sign, literal), ROW, ["status"])

    assert of("<>")
    assert of("is distinct from")
    assert not of("=")
    assert not holds(IsNull(STATUS), ROW, ["status"])
    assert holds(Not(IsNull(STATUS)), ROW, ["status"])


@pytest.mark.parametrize(
    ("condition", "row", "unchanged"),
    [
        (Compare(Reference("", "gone"), "=", "x"), ROW, ()),
        (Compare(STATUS, "=", Decimal(1)), ROW, ()),
        (Compare(Reference("", "id"), "=", "x"), ROW, ()),
        (Compare(Reference("", "total"), ">", Decimal(1)), ROW, ["total"]),
    ],
)
def test_what_an_event_does_not_say_is_not_guessed(
    condition: Condition, row: dict[str, Any], unchanged: list[str]
) -> None:
    with pytest.raises(UndecidedError):
        holds(condition, row, unchanged)


@given(st.text(max_size=80))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        condition = parse_condition(text)
    except ConditionError:
        return
    assert isinstance(condition, get_args(Condition))


@pytest.mark.parametrize(
    ("pattern", "texts", "others"),
    [
        ("open", ["open"], ["opened", "reopen", ""]),
        ("op%", ["op", "open", "op%"], ["o", "hop"]),
        ("%en", ["en", "open"], ["ena"]),
        ("%p_n%", ["open", "pan", "pins"], ["pn"]),
        ("a%b%a", ["aba", "abba", "a\nb a"], ["ab", "aa", "bab"]),
        ("100\\%", ["100%"], ["1000", "100"]),
        ("a.c", ["a.c"], ["abc"]),
        ("%", ["", "x"], []),
        ("_%_", ["ab", "abc"], ["a", ""]),
        ("%aa", ["aaa", "aa"], ["a"]),
        ("ab%ba", ["abba"], ["aba"]),
    ],
)
def test_patterns_are_those_of_like(pattern: str, texts: list[str], others: list[str]) -> None:
    for text in texts:
        assert met(f"status like '{pattern}'", {**ROW, "status": text}, FULL)
        assert met(f"status not like '{pattern}'", {**ROW, "status": text}, FULL) is False
    for text in others:
        assert not met(f"status like '{pattern}'", {**ROW, "status": text}, FULL)


def test_no_pattern_takes_long() -> None:
    pattern, text = "%a" * 300 + "%b", "a" * 200_000
    assert not met(f"status like '{pattern}'", {**ROW, "status": text}, FULL)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("status like 'a%' and id = 8", False),
        ("id = 8 and status like 'a%'", False),
        ("status like 'a%' or id = 7", True),
        ("not (status like 'a%' and id = 8)", True),
        ("status like 'a%' and id = 7", None),
        ("status like 'a%' or id = 8", None),
    ],
)
def test_what_is_not_said_matters_only_where_nothing_else_decides(
    text: str, wanted: bool | None
) -> None:
    condition = fitted_to_rows(parse_condition(text), FULL)
    image = {"": Image(ROW, ["status"])}
    if wanted is None:
        with pytest.raises(UndecidedError):
            meets(condition, image)
    else:
        assert meets(condition, image) is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("rate > 0.1", True), ("rate <= 0.1", False), ("rate = 0.5", False), ("rate = weight", False)],
)
def test_a_real_is_what_it_is_and_not_its_shortest_text(text: str, wanted: bool) -> None:
    assert met(text) is wanted


@pytest.mark.parametrize("literal", ["0.1", "16777217", "1e50"])
def test_a_real_is_not_said_to_equal_what_it_cannot(literal: str) -> None:
    with pytest.raises(ConditionError, match="at character 1: rate is of type real, which has no"):
        met(f"rate = {literal}")
