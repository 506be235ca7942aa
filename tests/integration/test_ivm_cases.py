"""66 views, each kept by its plan through changes whose effects PostgreSQL itself was asked for."""

from __future__ import annotations

import psycopg
import pytest

from tests.maintain.cases import CASES, SHOP, Case
from tests.maintain.kept import Difference, KeptView
from tests.maintain.mirrors import fill, tables_of
from views.maintain import plan_view


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_kept_with_exactly_its_effects(case: Case, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(SHOP)
        tables = tables_of(connection)
        fill(connection, tables.values())
        plan = plan_view(case.name, case.sql, case.key, tables)
        assert case.mode == "W" or plan.mode == "keys", plan.reason
        view = KeptView(connection, plan, case.sql)
        view.build()
        view.check()
        for number, batch in enumerate(case.batches):
            connection.execute(batch.changes)
            done = view.keep(tables)
            view.check()
            _compare(done, batch.effects, f"batch {number + 1}")


def _compare(done: Difference, effects: tuple[str, ...], where: str) -> None:
    """Equal to the effects as they are listed; of some only the number is."""
    for sign, found in (("-", done.gone), ("+", done.come)):
        listed = [effect[1:] for effect in effects if effect[0] == sign]
        number = sum(int(item.split()[0]) for item in listed if item.endswith(" rows"))
        named = sorted(item for item in listed if not item.endswith(" rows"))
        if number:
            assert sum(found.values()) == number + len(named), f"{where}: {found}"
            assert all(item in found for item in named), f"{where}: {found}"
        else:
            assert sorted(found.elements()) == named, where
