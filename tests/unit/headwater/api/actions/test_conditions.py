"""What a snapshot's condition may compare over HTTP, and of which tables."""

from __future__ import annotations

from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.api.access.principal import Principal, Role
from headwater.api.actions.conditions import checked_condition, is_pattern, qualified
from headwater.api.actions.routes import refuse_unseen_of
from headwater.api.problems import ProblemError


def find(name: str) -> Any:
    """``mail`` is treated; what is not published is in no relation."""
    columns = [SimpleNamespace(name=one, treatment=None) for one in ("id", "status", 'a"b')]
    columns.append(SimpleNamespace(name="mail", treatment=object()))
    relation = SimpleNamespace(columns=columns)
    return SimpleNamespace(relation=relation) if name == "public.orders" else None


@pytest.mark.parametrize(
    "text", ["id > 5 and status = 'mail'", """"a""b" = 'it''s "secret"'""", "status = '\"secret\"'"]
)
def test_published_columns_are_compared(text: str) -> None:
    assert checked_condition(text, ["public.orders"], find)


@pytest.mark.parametrize(
    "text", ["mail = 'x'", "secret = 1", "id = secret", "status in ('a', Secret)", "id = 1 or mail"]
)
def test_a_column_that_is_treated_or_not_published_is_not(text: str) -> None:
    with pytest.raises(ProblemError, match="published as it is") as refused:
        checked_condition(text, ["public.orders"], find)
    assert refused.value.status == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("table", ["public.other", "public.*", '"public".orders', "*.*"])
def test_tables_that_are_not_found_take_no_condition(table: str) -> None:
    with pytest.raises(ProblemError, match="not the name of a captured table"):
        checked_condition("id = 1", ["public.orders", table], find)


def test_a_name_alone_is_of_public_and_a_pattern_stays() -> None:
    assert qualified("orders") == "public.orders"
    assert qualified("Orders") == "public.Orders"
    for table in ("shop.orders", "*", "public.*", '"a b"', " orders"):
        assert qualified(table) == table
    assert [is_pattern(one) for one in ("a.b", "a", "a.*", '"a".b', " a.b")] == [
        False, False, True, True, True,
    ]  # fmt: skip


def test_a_grant_of_a_schema_opens_no_table_of_public_and_patterns_need_all() -> None:
    of_schema = Principal("alice", Role.OPERATOR, frozenset(("orders.*", "public.*")))
    narrow = of_schema._replace(tables=frozenset(("orders.*",)))
    refuse_unseen_of(of_schema, ["orders", "public.item", "orders.line"])
    for who, table in (
        (narrow, "orders"), (narrow, "public.orders"), (of_schema, "public.*"),
        (of_schema, '"public".x'), (of_schema, "*.*"),
    ):  # fmt: skip
        with pytest.raises(ProblemError):
            refuse_unseen_of(who, [table])
    refuse_unseen_of(of_schema._replace(tables=frozenset("*")), ["orders", "*.*"])
