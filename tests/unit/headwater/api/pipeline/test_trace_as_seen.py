"""Why a row of a view is parked may quote rows of each table that the view joins."""

from __future__ import annotations

import pytest

from headwater.api.access.principal import Principal, Role
from headwater.api.pipeline.figures import _traced_as_seen
from headwater.cli.trace.way import OfView
from tests.unit.headwater.pipeline import looks

SQL = "select o.id, c.name from public.orders o join public.customers c on c.id = o.customer"
PARKED = OfView("v", "s", 1, False, None, 0.0, "its key is parked", "name is Ada", None, None, "")


@pytest.mark.parametrize(
    ("tables", "seen"),
    [
        (("*",), True),
        (("public.*",), True),
        (("public.orders", "public.customers"), True),
        (("public.orders",), False),
    ],
)
def test_a_cause_is_for_who_may_see_all_tables_of_the_view(
    tables: tuple[str, ...], seen: bool
) -> None:
    found = looks.config("v")
    view = found.views["v"].model_copy(update={"sql": SQL})
    config = found.model_copy(update={"views": {"v": view}})
    who = Principal("alice", Role.VIEWER, frozenset(tables))
    shown = _traced_as_seen(config, PARKED, who)
    assert (shown == PARKED) is seen
    assert ("Ada" in str(shown)) is seen
    free = PARKED._replace(waits="9 records before it", cause="")
    assert _traced_as_seen(config, free, who) == free
