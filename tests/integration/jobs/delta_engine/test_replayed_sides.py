"""A replay of views whose keys read what a LEFT JOIN brings in, which at times is nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.views.mirrored_view import CUSTOMERS, ORDERS, MirroredView, held, version
from views.types import INT4, TEXT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = dict[tuple[Any, ...], Any]

SIDES = """
    select o.id, coalesce(c.name, 'nobody') as name, o.total
    from orders o left join customers c on c.id = o.customer_id
"""
PAIRS = """
    select coalesce(c.name, '?') as one, coalesce(d.name, '?') as other, count(*) as n
    from orders o left join customers c on c.id = o.customer_id
    left join customers d on d.id = o.total group by 1, 2
"""
ITEMS = version("items", id=INT4, label=TEXT)
TABLES = PAIRS.replace("customers d", "items d").replace("d.name", "d.label")
SELF = """
    select e.id, coalesce(m.note, '?') as boss
    from orders e left join orders m on m.id = e.customer_id
"""


def unmatched_since(view: MirroredView) -> Rows:
    """The customer is gone at the replay's place."""
    view.put(CUSTOMERS, 1, id=1, name="Ada")
    view.put(ORDERS, 2, id=10, customer_id=1, total=1)
    view.apply()
    view.delete(CUSTOMERS, 3, id=1)
    view.apply()
    stale = dict(view.sink.rows)
    view.put(ORDERS, 4, "u", id=10, customer_id=1, total=2)
    view.apply()
    return stale


def matched_by_one(view: MirroredView) -> Rows:
    """One of two occurrences of a table matches, the other one does not yet."""
    view.put(CUSTOMERS, 1, id=1, name="IT")
    view.put(ORDERS, 2, id=10, customer_id=1, total=2)
    view.apply()
    view.apply()
    stale = dict(view.sink.rows)
    view.put(CUSTOMERS, 3, id=2, name="FR")
    view.apply()
    return stale


def matched_by_itself(view: MirroredView) -> Rows:
    view.put(ORDERS, 1, id=10, customer_id=11)
    view.apply()
    view.apply()
    stale = dict(view.sink.rows)
    view.put(ORDERS, 2, id=11, note="Eve")
    view.apply()
    return stale


def matched_by_both(view: MirroredView) -> Rows:
    view.put(ORDERS, 1, id=10, customer_id=1, total=2)
    view.apply()
    view.apply()
    stale = dict(view.sink.rows)
    view.put(CUSTOMERS, 2, id=1, name="Ada")
    view.put(ITEMS, 2, id=2, label="ball")
    view.apply()
    return stale


@pytest.mark.parametrize(
    ("sql", "key", "history", "sets"),
    [
        pytest.param(SIDES, ("id", "name"), unmatched_since, 4, id="unmatched"),
        pytest.param(PAIRS, ("one", "other"), matched_by_one, 4, id="two occurrences"),
        pytest.param(SELF, ("id", "boss"), matched_by_itself, 4, id="itself"),
        pytest.param(TABLES, ("one", "other"), matched_by_both, 4, id="two tables"),
        pytest.param(TABLES, ("one", "other"), matched_by_both, 0, id="two tables, too many"),
    ],
)
def test_keys_that_rows_had_while_nothing_matched_are_reached(
    sql: str,
    key: tuple[str, ...],
    history: Callable[[MirroredView], Rows],
    sets: int,
    quickly: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By each set of occurrences without a match; and where these are too many, in the store."""
    monkeypatch.setattr("jobs.delta_engine.replay_rows._OCCURRENCES", sets)
    tables = tuple(t for t in (CUSTOMERS, ORDERS, ITEMS) if f" {t.table} " in sql)
    view = MirroredView(quickly, tmp_path, monkeypatch, sql, key, tables)
    view.restart()
    stale = history(view)
    wanted = held(view)
    view.sink.rows = stale
    assert held(view) != wanted
    view.replay(view.ends[1])
    view.apply()
    assert held(view) == wanted
