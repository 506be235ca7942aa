"""What is known of a view that the state database keeps, and of one that it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.config import Config, parse_config
from cdc.errors import UsageError
from cdc.kafka.broker import Broker
from jobs.state.views.view_record import LOADED, ViewRecord
from jobs.state.views.view_status import ViewStatus, view_status
from verification.view_facts import FactsOfState, is_kept_by_state, view_facts
from verification.view_positions import StoppedError

SQL = (
    "with o as (select * from orders) select id, count(*) from o join s.items using (id) group by 1"
)


def config(home: Path, engine: str = "database", **tables: Any) -> Config:
    views = {
        "v": {"store": "cache", "key": ["id"], "sql": SQL},
        "log": {"store": "lake", "key": ["id"], "sql": "select * from orders", "history": "log"},
    }
    document = {
        "source": {"name": "shop", "dsn": "host=nowhere", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "nowhere:9092"},
        "stores": {
            "cache": {"kind": "redis", "url": "redis://nowhere"},
            "lake": {"kind": "delta", "path": str(home)},
        },
        "views": views,
        "apply": {"engine": engine, "state": str(home)},
        "tables": {f"public.{name}": {"mirror": found} for name, found in tables.items()},
    }
    return parse_config(document, {}, base=home)


def record(sql: str = SQL, error: str = "") -> ViewRecord:
    return ViewRecord(1, "v", 1, sql, ("id",), "cache", LOADED, error)


class Asked:
    """The state database; ``now`` is what the clock shows."""

    def __init__(self, *found: ViewStatus) -> None:
        self.found = list(found)
        self.now = 0.0

    def __call__(self, _: Config, view: str) -> ViewStatus:
        assert view == "v"
        return self.found.pop(0)

    def clock(self) -> float:
        return self.now


def test_topics_are_those_of_the_sql_that_the_view_was_built_with(tmp_path: Path) -> None:
    asked = Asked(ViewStatus(), ViewStatus(record("select * from orders")))
    facts = FactsOfState(config(tmp_path), asked, asked.clock)
    assert facts.topics("v") == ["shop.public.orders", "shop.s.items"]
    asked.now = 1.0
    assert facts.topics("v") == ["shop.public.orders"]
    with pytest.raises(UsageError, match="no view 'w'"):
        facts.topics("w")


def test_the_state_database_is_asked_once_in_a_second(tmp_path: Path) -> None:
    asked = Asked(ViewStatus(record(), 2, applied=True), ViewStatus(record("select 1"), 0, False))
    facts = FactsOfState(config(tmp_path), asked, asked.clock)
    assert (facts.parked("v"), facts.applied("v")) == (2, True)
    asked.now = 0.9
    assert (facts.parked("v"), facts.applied("v")) == (2, True)
    asked.now = 1.0
    assert (facts.parked("v"), facts.applied("v")) == (0, False)


@pytest.mark.parametrize("error", ["view v: no room: make some", "no room: make some"])
def test_a_view_that_cannot_be_kept_is_refused_with_the_reason(tmp_path: Path, error: str) -> None:
    asked = Asked(ViewStatus(record(error=error)), ViewStatus(record()))
    facts = FactsOfState(config(tmp_path), asked, asked.clock)
    with pytest.raises(StoppedError, match=r"^view v: no room: make some\. Correct the cause"):
        facts.refuse_stopped("v", {})
    asked.now = 1.0
    facts.refuse_stopped("v", {})


def test_so_is_one_that_cannot_be_built(tmp_path: Path) -> None:
    facts = FactsOfState(config(tmp_path), Asked(ViewStatus(unbuilt="no table t")))
    with pytest.raises(StoppedError, match=r"^view v: no table t\. Correct the cause"):
        facts.refuse_stopped("v", {})


def test_a_view_is_kept_by_state_where_all_of_its_tables_are_mirrored(tmp_path: Path) -> None:
    assert is_kept_by_state(config(tmp_path), "v")
    assert is_kept_by_state(config(tmp_path), "log")
    assert not is_kept_by_state(config(tmp_path, orders=False), "log")
    assert not is_kept_by_state(config(tmp_path, "delta"), "v")
    assert not is_kept_by_state(config(tmp_path, orders=False), "v")
    with pytest.raises(UsageError, match="no view 'w'"):
        is_kept_by_state(config(tmp_path), "w")


def test_each_view_is_asked_about_where_it_is_kept(tmp_path: Path) -> None:
    with Broker("nowhere:9092") as broker:
        facts = view_facts(config(tmp_path), broker)
        assert facts.topics("log") == ["shop.public.orders"]
        assert facts.topics("v") == ["shop.public.orders", "shop.s.items"]


def test_nothing_is_known_of_a_state_that_is_elsewhere_and_nobody_applies_one_that_rests(
    tmp_path: Path,
) -> None:
    assert view_status(config(tmp_path), "v") == ViewStatus(None, 0, None)
    (tmp_path / "shop" / "_database").mkdir(parents=True)
    assert view_status(config(tmp_path), "v") == ViewStatus(None, 0, applied=False)
