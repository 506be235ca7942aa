"""Whose rows a view shows, and to whom."""

from __future__ import annotations

import pytest

from headwater.api.access.principal import ALL, LOCAL, Principal, Role
from headwater.api.changes.routes import _granted
from headwater.api.problems import ProblemError

SQL = "select o.id, c.name from orders o join sales.customers c on c.id = o.customer_id"
BOTH = ["public.orders", "sales.customers"]


def seeing(*tables: str) -> Principal:
    return Principal("app", Role.OPERATOR, frozenset(tables))


@pytest.mark.parametrize("who", [seeing(*BOTH), seeing("public.*", "sales.*"), LOCAL])
def test_who_may_see_all_tables_of_a_view_may_see_its_rows(who: Principal) -> None:
    assert _granted(who, "v", SQL) == BOTH


@pytest.mark.parametrize("who", [seeing(), seeing("public.orders"), seeing("sales.*")])
def test_one_table_less_and_nothing_is_shown(who: Principal) -> None:
    with pytest.raises(ProblemError) as caught:
        _granted(who, "v", SQL)
    assert (caught.value.status, caught.value.kind) == (403, "not-granted")


def test_of_sql_that_nobody_can_read_the_tables_are_all() -> None:
    assert _granted(LOCAL, "v", "no sql") == [ALL]
    with pytest.raises(ProblemError):
        _granted(seeing(*BOTH), "v", "no sql")
