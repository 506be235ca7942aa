"""``headwater topics add-partitions``: nothing is lost, doubled or out of order, and it begins only
where that is certain."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc.kafka.broker import Broker, Record
from cdc.topics import outbox_topic, table_topic
from tests.support.commands.deployment import (
    Deployment,
    Event,
    answer_in_the_end,
    assert_exactly_once_in_order,
    done,
    fold,
)
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.postgres import fresh_database

BEFORE, AFTER, MORE, MOST = 2, 5, 7, 8
ROWS = 60
BESIDE = """
[[source.routes]]
tables = ["public.*"]
rows_topic = "{source}.rows"
distinct_keys = true
add.fields = "source.table"
delete.tombstone.handling.mode = "rewrite"
"""
"""Rows of both tables, beside their events, in one topic."""


@pytest.fixture(scope="module")
def deployment(
    tmp_path_factory: pytest.TempPathFactory,
    module_database: str,
    kafka: str,
    redis_server: str,
    lender: Lender,
) -> Deployment:
    home: Path = tmp_path_factory.mktemp("partitions")
    name = f"p{home.stat().st_ino}"
    return Deployment(
        home,
        name,
        module_database,
        kafka,
        settings=BESIDE,
        extra=(
            f"partitions = {BEFORE}\n"
            f'[capture]\nemit_topics = ["mail"]\n[apply]\nstate = "{home / "state"}"\n'
            f'[stores.lake]\nkind = "delta"\npath = "{home / "lake"}"\ncadence_s = 0.2\n'
            f'[tables."public.event"]\nmirror = false\n'
            f'[views.{name}_event]\nstore = "lake"\nkey = ["id"]\nsql = "select * from event"\n'
            f'[stores.cache]\nkind = "redis"\nurl = "{redis_server}"\n'
            f'[views.{name}_item]\nstore = "cache"\nkey = ["id"]\nsql = "select * from item"\n'
        ),
        jvm=lender,
    )


@pytest.fixture(scope="module")
def module_database(postgres: str) -> Iterator[str]:
    with fresh_database(postgres) as dsn:
        yield dsn


def _view(deployment: Deployment) -> str:
    return f"{deployment.name}_item"


def _add(deployment: Deployment, table: str, count: int) -> tuple[int, str]:
    """The exit code, and what was said."""
    ended = deployment.run("topics", "add-partitions", table, str(count), "--yes", "--json")
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout or ended.stderr


def _added(shop: Deployment, table: str, count: int) -> dict[str, int]:
    """How many partitions the topics had that have ``count`` of them now."""
    code, said = _add(shop, table, count)
    assert code == 0, said
    done = json.loads(said)
    assert done["partitions"] == count
    return {one["topic"].removeprefix(f"{shop.name}."): one["before"] for one in done["topics"]}


def test_keys_keep_their_order_when_partitions_are_added(deployment: Deployment) -> None:
    shop, view, direct = deployment, _view(deployment), f"{deployment.name}_event"
    shop.execute(
        "create table item (id int primary key, n int, note text)",
        f"insert into item select i, 0, repeat('x', 10) from generate_series(1, {ROWS}) i",
        "create table event (id int primary key, n int)",
        f"insert into event select i, 0 from generate_series(1, {ROWS}) i",
    )
    shop.init()
    with shop.running("apply", "--json"):
        with shop.running("capture") as capture:
            shop.execute("update item set n = 1", "delete from item where id % 7 = 0", *_MAILS)
            shop.execute("update event set n = 1")
            shop.captured(capture)
            assert "capture is running" in _add(shop, "public.item", AFTER)[1]
            done(shop, "wait", view, direct, "--timeout", "120")
        assert _added(shop, "public.item", AFTER) == {"public.item": BEFORE, "rows": BEFORE}
        assert _added(shop, "public.event", AFTER) == {"public.event": BEFORE}
        assert _added(shop, "outbox.mail", AFTER) == {"outbox.mail": BEFORE}
        with shop.running("capture") as capture:
            shop.execute(
                "update item set n = n + 1",
                "insert into item select i, 0, 'again' from generate_series(7, 56, 7) i",
                "update item set n = n + 1 where id % 2 = 0",
                "delete from item where id % 5 = 0",
                "update event set n = n + 1",
                "delete from event where id % 5 = 0",
                *_MAILS,
            )
            shop.captured(capture)
            done(shop, "wait", view, direct, "--timeout", "60")
            for one in (view, direct):
                assert json.loads(done(shop, "verify", one, "--json", "--timeout", "60"))["equal"]
        _refusals(shop)
    replayed = shop.run("replay", direct, "--from", "beginning")
    assert replayed.returncode == 1
    assert f"headwater view rebuild {direct}" in replayed.stderr, replayed.stderr
    _interrupted(shop)

    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert {event.partition for event in events} == set(range(MORE))
    _counted_one_by_one(events)
    rows = {row["id"]: row["n"] for row in fold(events).values()}
    assert rows == _rows(shop, "item")
    _rows_beside_are_those_of_the_source(shop)
    mails = shop.topic(outbox_topic(shop.name, "mail"))
    assert sorted(one.value["n"] for one in mails if one.value) == sorted([*range(20)] * 2)
    assert {one.partition for one in mails} == set(range(AFTER))


_MAILS = (
    """select headwater.emit('mail', format('{"id":%s}', i), format('{"n":%s}', i))
       from generate_series(0, 19) i""",
)


def _rows_beside_are_those_of_the_source(shop: Deployment) -> None:
    """Each change once and in order in the second topic, too."""
    topic = f"{shop.name}.rows"

    def read(broker: Broker) -> list[Record]:
        ends = broker.end_offsets([topic])[topic]
        return [one for p, end in sorted(ends.items()) for one in broker.read(topic, p, 0, end)]

    found = answer_in_the_end(shop.bootstrap, read)
    newest: dict[tuple[str, int], tuple[bytes, dict[str, Any]]] = {}
    streamed = defaultdict(list)
    for one in found:
        at, row = dict(one.headers)["position"] or b"", json.loads(one.value or b"")
        if not at.endswith(b"00000000"):
            streamed[one.partition].append(at)
        key = row["__source_table"], row["id"]
        newest[key] = max(newest.get(key, (b"", row)), (at, row), key=lambda held: held[0])
    for places in streamed.values():
        assert places == sorted(set(places))
    assert sum(map(len, streamed.values())) == len({at for of in streamed.values() for at in of})
    assert {one.partition for one in found} == set(range(MOST))
    for table in ("item", "event"):
        left = {
            number: row["n"]
            for (of, number), (_, row) in newest.items()
            if of == table and row["__deleted"] == "false"
        }
        assert left == _rows(shop, table)


def _counted_one_by_one(events: list[Event]) -> None:
    """Each row's ``n`` rises by one with each update: no change is missing, none is there twice."""
    counters = defaultdict(list)
    for event in sorted((one for one in events if one.value), key=lambda one: one.position):
        assert event.value is not None
        if event.value["op"] in ("c", "r", "u"):
            counters[json.dumps(event.key)].append((event.value["op"], event.value["after"]["n"]))
    for key, versions in counters.items():
        for (_, n), (op, later) in pairwise(versions):
            assert op == "c" or later == n + 1, (key, versions)


def _refusals(shop: Deployment) -> None:
    """While capture is stopped and apply runs."""
    assert "choose a larger number" in _add(shop, "public.item", AFTER)[1].lower()
    assert "choose a larger number" in _add(shop, "public.item", AFTER - 1)[1].lower()
    code, said = _add(shop, "public.other", 9)
    assert (code, "public.other is not captured" in said) == (2, True), said


def _interrupted(shop: Deployment) -> None:
    """A view lacks a record, as apply has ended; then partitions are there and no mark says so: of
    events, and then of rows."""
    with shop.running("capture") as capture:
        shop.execute("update item set n = n + 1 where id = 1")
        shop.captured(capture)
    code, said = _add(shop, "public.item", MORE)
    assert code == 1
    assert f"view {_view(shop)} has not applied 1 records of" in said
    with shop.running("capture"), shop.running("apply", "--json"):
        done(shop, "wait", _view(shop), "--timeout", "60")
    item, rows = table_topic(shop.name, "public", "item"), f"{shop.name}.rows"
    for topic, table, count, had in (
        (item, "public.item", MORE, {"public.item": AFTER, "rows": AFTER}),
        (rows, "public.event", MOST, {"public.event": AFTER, "rows": MORE}),
    ):
        with Broker(shop.bootstrap) as broker:
            broker.add_partitions(topic, count)
        refused = shop.run("capture")
        assert refused.returncode == 1
        assert "headwater topics add-partitions" in refused.stderr
        assert _added(shop, table, count) == had
    with shop.running("capture") as capture, shop.running("apply", "--json"):
        shop.execute("update item set n = n + 1", "update item set n = n + 1")
        shop.execute("update event set n = n + 1")
        shop.captured(capture)
        done(shop, "wait", _view(shop), "--timeout", "60")
        equal = json.loads(done(shop, "verify", _view(shop), "--json", "--timeout", "60"))["equal"]
        assert equal


def _rows(shop: Deployment, table: str) -> dict[int, int]:
    with psycopg.connect(shop.dsn) as conn:
        return dict(conn.execute(f"select id, n from {table}".encode()).fetchall())
