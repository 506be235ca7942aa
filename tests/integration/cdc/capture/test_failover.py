"""A standby is promoted: capture goes on exactly where Kafka stands, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from stack import servers
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order
from tests.support.servers.standby import SLOT, Pair, start_pair
from tests.support.waiting import wait_until

Start = Callable[..., Pair]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Start]:
    made: list[Pair] = []

    def start(**settings: str) -> Pair:
        made.append(start_pair(tmp_path, settings))
        return made[0]

    yield start
    for one in made:
        one.purge()


def deployed(home: Path, pair: Pair, kafka: str, name: str) -> Deployment:
    shop = Deployment(home, name, pair.dsn, kafka)
    shop.extra = "[capture]\nheartbeat_s = 0.5"
    shop.settings = "failover = true\n"
    shop.execute("create table item (id int primary key, name text)")
    shop.init()
    return shop


def test_capture_follows_a_promoted_standby_exactly_once(
    tmp_path: Path, pair: Start, kafka: str, source_name: str
) -> None:
    servers_of = pair(synchronized_standby_slots=SLOT)
    shop = deployed(tmp_path, servers_of, kafka, source_name)
    checked = shop.run("check")
    assert f"waits for {SLOT}" in checked.stdout + checked.stderr
    with shop.running("capture") as capture:
        shop.execute("insert into item select i, 'before' from generate_series(1, 500) i")
        shop.captured(capture)
        servers_of.synchronised(f"headwater_{shop.name}")
        with psycopg.connect(shop.dsn, autocommit=True) as conn:
            for i in range(501, 601):
                conn.execute("insert into item values (%s, 'late')", [i])
        servers_of.replayed(shop.wal_end())
        servers_of.promote()
        shop.execute("insert into item select i, 'after' from generate_series(601, 1000) i")
        shop.captured(capture)
        assert capture.poll() is None
    assert "source_promoted" in shop.log("capture")
    assert shop.newest_mark().timeline == 2
    with shop.running("capture") as capture:  # and a process that begins on the new timeline
        shop.execute("insert into item values (1001, 'last')")
        shop.captured(capture)
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert {event.key["id"] for event in events if event.key} == set(range(1, 1002))
    assert len(events) == 1001


def test_a_promoted_standby_that_lacks_what_kafka_holds_is_refused(
    tmp_path: Path, pair: Start, kafka: str, source_name: str
) -> None:
    servers_of = pair()
    shop = deployed(tmp_path, servers_of, kafka, source_name)
    checked = shop.run("check")
    assert "synchronized_standby_slots is empty" in checked.stdout + checked.stderr
    with shop.running("capture") as capture:
        shop.execute("insert into item values (1, 'shared')")
        shop.captured(capture)
        servers_of.synchronised(f"headwater_{shop.name}")
        servers.stop(servers_of.standby, ["postgres"])
        shop.execute("insert into item values (2, 'only the old primary has it')")
        wait_until(lambda: shop.records("item") == 2, "both rows in Kafka")
        servers.kill(servers_of.primary, "postgres")
        servers.start(servers_of.standby, ["postgres"])
        with psycopg.connect(servers_of.standby_dsn, autocommit=True) as conn:
            assert conn.execute("select pg_promote()").fetchone() == (True,)
        wait_until(lambda: capture.poll() is not None, "capture to refuse")
        assert capture.returncode == 1
    assert "that the promoted server never had" in shop.log("capture")
    refused = shop.run("capture")
    assert refused.returncode == 1
    assert "headwater init --again" in refused.stderr
    again = shop.run("init", "--again")
    assert again.returncode == 0, again.stderr
    with shop.running("capture") as capture:
        shop.captured(capture)
