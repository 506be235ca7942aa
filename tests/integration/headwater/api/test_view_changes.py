"""The change stream of a view: what a client holds is what the view's store has."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from cdc.config import load_config
from jobs.state.feeds.feed_log import trim_logs
from jobs.state.feeds.feed_reader import feed_session
from tests.chaos.faults.step_kills import VARIABLE, told
from tests.support.commands import view_shop
from tests.support.commands.view_shop import ITEMS, LOUD, ROWS, Shop
from tests.support.serve.receiver import receiving, secret_file
from tests.support.serve.served import Following, Served
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

VIEW = "items"


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: str,
    kafka: str,
    redis_server: str,
    lender: Lender,
) -> Iterator[Shop]:
    """A view of two tables that has a change stream."""
    home = tmp_path_factory.mktemp("view_changes")
    with view_shop.opened(home, postgres, kafka, redis_server, lender) as made:
        made.of_views = "change_stream = true"
        made.declare(VIEW, ITEMS)
        yield made


class Writer(threading.Thread):
    """Changes of both tables, in transactions, until it is told to end."""

    def __init__(self, dsn: str) -> None:
        super().__init__(daemon=True)
        self._dsn, self._chance = dsn, random.Random(11)
        self.ending = threading.Event()
        self.fault: Exception | None = None

    def run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as conn:
                while not self.ending.wait(0.02):
                    with conn.transaction():
                        for _ in range(self._chance.randint(1, 5)):
                            conn.execute(*self._change())
        except Exception as error:
            self.fault = error

    def _change(self) -> tuple[bytes, list[object]]:
        chance, key = self._chance, self._chance.randint(1, ROWS + 50)
        kind = chance.random()
        if kind < 0.1:
            name = f"kind {chance.randint(1, 3)}"  # as it was, at times
            return b"update kind set name = %s where id = %s", [name, chance.randint(1, 5)]
        if kind < 0.25:
            return b"delete from item where id = %s", [key]
        name = f"item {chance.randint(1, 99)}"
        return (
            b"insert into item values (%s, %s, %s, 1) on conflict (id) do update set "
            b"name = excluded.name, kind_id = excluded.kind_id",
            [key, chance.randint(1, 5), name],
        )

    def stop(self) -> None:
        self.ending.set()
        self.join()
        assert self.fault is None, self.fault


def followed(served: Served, shop: Shop) -> Following:
    """A client of the view's stream."""
    one = served.follower(VIEW)
    one.follower.url = f"{served.base}/views/{shop.name(VIEW)}/changes"
    return one


def held(shop: Shop) -> dict[tuple[Any, ...], Any]:
    return {(key,): row for key, row in shop.shown(VIEW).items()}


def source(sql: str, shop: Shop) -> dict[tuple[Any, ...], Any]:
    return {(key,): row for key, row in shop.expected(sql).items()}


def more(one: Following, count: int) -> None:
    seen = len(one.ids)
    wait_until(lambda: len(one.ids) > seen + count, "changes to come")


def positions_rise(one: Following) -> list[tuple[int, int]]:
    """Of all changes that it takes from now on."""
    found: list[tuple[int, int]] = []
    apply = one.follower.apply

    def noted(change: dict[str, Any]) -> None:
        if change["op"] != "r":
            found.append((change["source"]["commit_lsn"], change["source"]["ordinal"]))
        apply(change)

    one.follower.apply = noted
    return found


def killed_behind_a_write(shop: Shop) -> None:
    """An apply dies that has written rows to the store, and has not noted it yet."""
    shop.deployment.environment[VARIABLE] = told("behind rows gone to {}", "redis", 2)
    with shop.applied() as dying:
        del shop.deployment.environment[VARIABLE]
        wait_until(lambda: dying.poll() is not None, "apply to die")


def test_rows_and_changes_are_the_view_while_apply_and_the_server_are_killed(shop: Shop) -> None:
    """Nothing is lost, nothing comes twice, and nothing goes back. Who comes back too late is told,
    and so is who follows a view that is built anew."""
    served, writer = Served(shop.deployment), Writer(shop.deployment.dsn)
    path = f"/views/{shop.name(VIEW)}/changes"
    with ExitStack() as running:
        apply = running.enter_context(shop.applied())
        wait_until(lambda: shop.built(VIEW), "the view to be built")
        writer.start()
        with served.running() as server:
            one = followed(served, shop)
            positions = positions_rise(one)
            running.enter_context(one)
            wait_until(lambda: one.follower.complete, "the rows")
            more(one, 20)
            server.kill()
            server.wait()
        running.enter_context(served.running())
        more(one, 20)
        apply.kill()
        apply.wait()
        killed_behind_a_write(shop)
        running.enter_context(shop.applied())
        more(one, 20)
        writer.stop()
        wait_until(lambda: one.rows == source(ITEMS, shop), "the last change")
        assert one.rows == held(shop)
        assert one.names.count("snapshot-begin") == 1, "it has gone on by its ids"
        assert len(one.ids) == len(set(one.ids))
        assert positions == sorted(positions)

        begun = one.ids[one.names.index("snapshot-end")]
        assert served.get(path, after=begun, wait="0").document["events"]
        with feed_session(load_config(shop.deployment.config)) as state:
            trim_logs(state, 1, 3_600)
        gone = served.get(path, after=begun, wait="0")
        assert (gone.status, gone.document["reason"]) == (410, "retention")
        assert served.get(path, after=one.ids[-1], wait="0").document["events"] == []

        shop.declare(VIEW, LOUD)
        shop.done("view", "rebuild", shop.name(VIEW))
        wait_until(lambda: one.rows == source(LOUD, shop), "the new view's rows")
        assert one.names.count("gone") == 1, "it was told once, and not of what was trimmed"
        assert held(shop) == one.rows
        stale = served.get(path, after=begun, wait="0")
        assert (stale.status, stale.document["reason"]) == (410, "rebuilt")


MOVED = "after.kind = 'kind 1' and before.kind is distinct from after.kind"


def test_an_alert_tells_each_change_of_a_view_that_is_meant_through_kills_and_a_build(
    shop: Shop,
) -> None:
    """What a build makes of the rows is told by nobody."""
    served, dsn = Served(shop.deployment), shop.deployment.dsn

    def move(first: int, last: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            for key in range(first, last):
                conn.execute("update item set kind_id = 1 where id = %s", [key])

    def told(first: int, last: int) -> bool:
        return {one["key"]["id"] for one in receiver.taken("/")} >= set(range(first, last))

    with ExitStack() as running:
        receiver = running.enter_context(receiving())
        shop.deployment.execute(
            "update kind set name = 'kind ' || id",
            "insert into item select i, 2, 'item', 1 from generate_series(301, 360) i",
        )
        shop.beside = (
            f'[alerts]\nsecret_file = "{secret_file(shop.deployment.home)}"\n'
            f'[alerts.rows.moved]\nview = "{shop.name(VIEW)}"\nwhen = "{MOVED}"\n'
            f'webhook = "{receiver.url}/"\ncolumns = ["kind"]\n'
        )
        shop.declare(VIEW, LOUD)
        apply = running.enter_context(shop.applied())
        shop.equal(VIEW, LOUD)
        with served.running() as server:
            wait_until(lambda: "row_alert_begins" in served.log(), "the alert to begin")
            move(301, 320)
            wait_until(lambda: told(301, 305), "some messages")
            server.kill()
            server.wait()
        move(320, 330)
        apply.kill()
        apply.wait()
        move(330, 340)
        running.enter_context(served.running())
        running.enter_context(shop.applied())
        wait_until(lambda: told(301, 340), "all of them")
        shop.declare(VIEW, ITEMS)
        shop.done("view", "rebuild", shop.name(VIEW))
        move(340, 360)
        wait_until(lambda: told(340, 360), "those of the generation that was built")
    assert receiver.faults == []
    sent = [data for _, data, _ in receiver.requests]
    assert {one["key"]["id"] for one in sent} == set(range(301, 360))
    assert {(one["before"]["kind"], one["after"]["kind"]) for one in sent} == {("kind 2", "kind 1")}
