"""A view's snapshot as a build sees it, on a real source."""

from __future__ import annotations

from bootstrap.snapshot_source import TableSnapshots
from cdc.config import load_config
from cdc.kafka.broker import Broker
from snapshots import snapshot_on_demand
from tests.support.commands.deployment import Deployment
from views.parse.definition import parse_view


def test_one_that_somebody_cancelled_does_not_go_on(shop: Deployment) -> None:
    shop.execute("insert into item select i, 'n' from generate_series(1, 10) i")
    shop.execute("create table other (id int primary key)")
    shop.init()
    config = load_config(shop.config)
    items, others = (
        parse_view("v", "s", ("id",), f"select * from {table}") for table in ("item", "other")
    )
    with Broker(shop.bootstrap) as broker:
        taken = TableSnapshots(config, broker, "v", lambda _: None)
        first = taken.start(items)
        assert taken.start(items) == first, "a killed build had asked for it"
        assert taken.start(others) != first
        assert taken.goes_on(first)
        snapshot_on_demand.ask(config, int(first), "cancel")
        assert not taken.goes_on(first)
        second = taken.start(items)
        assert second != first
        taken.discard(first)
        assert not taken.goes_on(first)
        assert taken.finish(second).rows == 10
        assert taken.goes_on(second)
