"""Why a group is computed from all of its rows, with what to change."""

from __future__ import annotations

import pytest

from jobs.state.groups.tables import ColumnType, unfit_column
from tests.sql_maintenance.shop_tables import TABLES
from views.maintain import plan_view


@pytest.mark.parametrize(
    ("sql", "types", "why"),
    [
        (
            "select upper(status) as s, sum(total) as t from orders group by upper(status)",
            {"k0": ("numeric", "b"), "s": ("numeric", "b")},
            "it groups by s, an expression of type numeric: group by a column of a table",
        ),
        (
            "select status as s, sum(total) as t from orders group by status",
            {"s": ("double precision", "b")},
            "it sums values of type double precision: cast them to numeric or an integer",
        ),
        (
            "select status as s, sum(total) as t from orders group by status",
            {"s": ("numeric", "b")},
            "",
        ),
    ],
)
def test_the_column_that_stands_against_it_is_named_with_its_type(
    sql: str, types: dict[str, tuple[str, str]], why: str
) -> None:
    groups = plan_view("v", sql, ("s",), TABLES).groups
    assert groups is not None
    found = {"k0": ("text", "b"), **types} | {one.name: types["s"] for one in groups.arguments}
    declared = {name: ColumnType(type_, kind, type_) for name, (type_, kind) in found.items()}
    assert unfit_column(groups, declared) == why
