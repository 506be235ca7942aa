"""Random views: joins, groups, windows, subqueries, set operations, nested in each other. Pure."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.sql_maintenance.group_forms import distinct, grouped, rolled_up
from tests.sql_maintenance.join_forms import TWICE, joined, joined_twice, nested_join
from tests.sql_maintenance.relations import Draw, Form
from tests.sql_maintenance.row_forms import (
    elements,
    filtered,
    first_of,
    lateral_top,
    lateral_value,
    scalar,
    windowed,
)
from tests.sql_maintenance.set_forms import common, recursive, set_operation, union_all

View = tuple[str, tuple[str, ...]]
"""SQL and key."""
_FORMS: Final[tuple[Form, ...]] = (
    joined, joined, grouped, grouped, filtered, distinct, union_all, set_operation, windowed,
    first_of, lateral_top, lateral_value, elements, scalar, common, nested_join,
)  # fmt: skip


def view(random: Random) -> View:
    """Any view."""
    return _view(Draw(random, _FORMS))


def view_twice(random: Random) -> View:
    """One in which a relation stands under two aliases, below another that is joined by both."""
    while True:
        sql, key = _view(Draw(random, (*_FORMS, *[joined_twice] * 5)))
        if TWICE in sql:
            return sql, key


def _view(draw: Draw) -> View:
    made = draw.relation(draw.random.choice((1, 1, 1, 2, 2, 3)))
    if draw.random.random() < 0.06:
        made = rolled_up(draw)
    if draw.random.random() < 0.05:
        made = recursive()
    alias = draw.alias()
    shown = ", ".join(f"{alias}.{column.name}" for column in made.columns)
    if made.sql.startswith("("):
        return made.sql[1:-1], made.key
    return f"select {shown} from {made.sql} {alias}", made.key
