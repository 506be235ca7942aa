"""Conditions of clients: what parses, what fits a table, and which rows meet them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.protocol.relation import Column, Relation, TypeInfo
from headwater.api.changes.condition import (
    ConditionError,
    Term,
    UndecidedError,
    fitted,
    holds,
    parse_condition,
)


def column(name: str, base: str, key: bool = False, collation: str = "") -> Column:
    return Column(name, TypeInfo(1, "pg_catalog", base, "base", base), -1, key, collation=collation)


COLUMNS = (
    column("id", "int4", key=True),
    column("status", "text"),
    column("total", "numeric"),
    column("weight", "float8"),
    column("paid", "bool"),
    column("at", "timestamptz"),
    column("code", "text", collation="public.blind"),
    column("Odd name", "uuid"),
)
ORDERS = Relation(1, "public", "orders", "d", COLUMNS, ("id",))
FULL = Relation(1, "public", "orders", "f", COLUMNS, ("id",))
KEYLESS = Relation(1, "public", "orders", "f", COLUMNS, ())
ROW: dict[str, Any] = {
    "id": 7, "status": "open", "total": "1000.50", "weight": 0.1, "paid": True, "at": "x",
    "code": "a", "Odd name": "6f8b3c1e-0000-4000-8000-00000000000a",
}  # fmt: skip


def met(text: str, row: dict[str, Any] = ROW, relation: Relation = ORDERS) -> bool:
    return holds(fitted(parse_condition(text), relation), row)


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
        "id = 7 or id = 8",
        "(id = 7)",
        "not id = 7",
        "id = id",
        "id = 7; drop table orders",
        "id = 7 -- comment",
        "status like 'a%'",
        'status = "open"',
        "status = 'open",
        "id = 0x10",
        "id = 1e9999",
        "null is null",
        "id == 7",
        "id = 7 status = 'x'",
        "lower(status) = 'x'",
        "status = 'a' || 'b'",
        "id = 7\0",
        " and ".join(["id = 7"] * 11),
        "status = '" + "a" * 1_000 + "'",
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        parse_condition(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nowhere = 1", "no column nowhere"),
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
    def of(sign: str, literal: str | None = None) -> bool:
        return holds([Term("status", sign, literal)], ROW, ["status"])

    assert of("<>", "open")
    assert of("is not null")
    assert not of("=", "open")
    assert not of("is null")


@pytest.mark.parametrize(
    ("term", "row", "unchanged"),
    [
        (Term("gone", "=", "x"), ROW, ()),
        (Term("status", "=", Decimal(1)), ROW, ()),
        (Term("id", "=", "x"), ROW, ()),
        (Term("total", ">", Decimal(1)), ROW, ["total"]),
    ],
)
def test_what_an_event_does_not_say_is_not_guessed(
    term: Term, row: dict[str, Any], unchanged: list[str]
) -> None:
    with pytest.raises(UndecidedError):
        holds([term], row, unchanged)


@given(st.text(max_size=80))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        terms = parse_condition(text)
    except ConditionError:
        return
    assert terms
