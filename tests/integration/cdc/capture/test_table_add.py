"""A table that joins while capture runs: rows and changes together are the table, nothing twice."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.support.commands.deployment import Deployment, Event, fold
from tests.support.waiting import wait_until

ROWS = 3_000
BEATS = "[capture]\nheartbeat_s = 0.5\nprogress_ms = 50\n"


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    """``first`` is captured, ``second`` is not yet."""
    deployment.execute(
        "create table first (id int primary key, name text)",
        "create table second (id int primary key, n int not null)",
        f"insert into second select i, 0 from generate_series(1, {ROWS}) i",
    )
    deployment.tables = ("public.first",)
    deployment.extra = BEATS
    deployment.init()
    deployment.tables = ("public.first", "public.second")
    deployment.write()
    return deployment


@contextmanager
def writing(dsn: str, seed: int) -> Iterator[list[int]]:
    """Random changes of ``second``, some hundred transactions a second, which overlap."""
    done, failed, commits = threading.Event(), [], [0]

    def write(number: int) -> None:
        rng = random.Random(f"{seed} {number}")
        try:
            with psycopg.connect(dsn) as conn:
                while not done.wait(0.005):
                    for _ in range(rng.choice((1, 1, 3, 20))):
                        key = rng.randrange(1, ROWS * 2, 2) + number
                        if rng.random() < 0.3:
                            conn.execute("delete from second where id = %s", (key,))
                        else:
                            upsert = "on conflict (id) do update set n = second.n + 1"
                            conn.execute(f"insert into second values (%s, 1) {upsert}", (key,))
                    conn.commit()
                    commits[0] += 1
        except psycopg.Error as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield commits
    finally:
        done.set()
        for thread in threads:
            thread.join(60)
    assert not failed, failed


def table(shop: Deployment) -> dict[str, dict[str, Any]]:
    with psycopg.connect(shop.dsn) as conn:
        rows = conn.execute("select id, n from second").fetchall()
    return {json.dumps({"id": id_}): {"id": id_, "n": n} for id_, n in rows}


def streamed(events: list[Event]) -> list[tuple[int, int]]:
    return [event.position for event in events if event.value and event.position[1]]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_table_joins_while_it_is_written_and_capture_runs(shop: Deployment, seed: int) -> None:
    with shop.running("capture") as capture:
        shop.captured(capture)
        with writing(shop.dsn, seed) as commits:
            wait_until(lambda: commits[0] > 20, "some commits")
            done = shop.run("table", "add", "public.second", "--json")
            assert done.returncode == 0, done.stderr
            before = commits[0]
            wait_until(lambda: commits[0] > before + 20, "some more commits")
        shop.captured(capture)
        assert "are not in Kafka" not in shop.log("capture")
    events = shop.events("second")
    (joined,) = json.loads(done.stdout)
    assert joined["status"] == "complete"
    assert sum(event.value["op"] == "r" for event in events if event.value) == joined["rows"] > 0
    assert fold(events) == table(shop)
    assert len(streamed(events)) == len(set(streamed(events)))
    with shop.running("capture") as capture:  # what it finds at its next start fits
        shop.captured(capture)
        shop.execute("insert into second values (0, 7)")
        shop.captured(capture)
    assert fold(shop.events("second")) == table(shop)
    again = shop.run("table", "add", "public.second")
    assert again.returncode == 1
    assert "captured already: public.second" in again.stderr


def test_a_killed_run_is_completed_by_the_next_one(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.captured(capture)
        with writing(shop.dsn, 3):
            arguments = ("table", "add", "public.second", "--rate", "500 rows/s")
            with shop.running(*arguments) as adding:
                wait_until(lambda: shop.records("second") > 100, "some rows")
                adding.send_signal(signal.SIGKILL)
                adding.wait(120)
            done = shop.run("table", "add", "public.second", "--json")
            assert done.returncode == 0, done.stderr
        shop.captured(capture)
    events = shop.events("second")
    assert fold(events) == table(shop)
    assert len(streamed(events)) == len(set(streamed(events)))


def test_a_table_that_was_published_by_hand_gets_its_rows(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.captured(capture)
        shop.execute(
            f"alter publication headwater_{shop.name} add table only public.second",
            "update second set n = 5 where id <= 10",
            "delete from second where id = 11",
        )
        wait_until(lambda: "table_joined" in shop.log("capture"), "the hint")
        shop.captured(capture)
        done = shop.run("table", "add", "public.second")
        assert done.returncode == 0, done.stderr
    events = shop.events("second")
    assert fold(events) == table(shop)
    assert not any(event.value["op"] == "t" for event in events if event.value)


def test_a_table_that_was_out_for_a_while_begins_anew(shop: Deployment) -> None:
    assert shop.run("table", "add", "public.second").returncode == 0
    shop.execute(
        f"alter publication headwater_{shop.name} drop table only public.second",
        "delete from second where id <= 100",  # nobody hears of it
    )
    assert shop.run("table", "add", "public.second").returncode == 0
    with shop.running("capture") as capture:
        shop.execute("delete from second where id <= 200")
        shop.captured(capture)
    assert fold(shop.events("second")) == table(shop)


def test_what_cannot_join_is_refused_before_anything_is_made(shop: Deployment) -> None:
    shop.execute("create table third (id int)")
    for named, said in (
        ("public.third", "public.third is not in source.tables"),
        ("other.nothing_here", "table other.nothing_here does not exist. Create it"),
        ("public.thrid", "table public.thrid does not exist. Did you mean public.third?"),
    ):
        refused = shop.run("table", "add", named)
        assert refused.returncode == 1
        assert said in refused.stderr
    shop.tables, shop.settings = ("public.*",), 'exclude = ["public.third"]\n'
    refused = shop.run("table", "add", "public.third")
    assert "public.third is excluded by source.exclude\n  hint: Remove it there" in refused.stderr
    shop.settings, shop.tables = "", ("public.first", "public.second", "public.third")
    refused = shop.run("table", "add", "public.third")
    assert refused.returncode == 1
    assert "no replica identity" in refused.stderr
    snapshots = json.loads(shop.run("snapshot", "list", "--json").stdout)
    assert [one["kind"] for one in snapshots] == ["initial"]


def test_a_key_of_the_configuration_is_known_to_capture_before_its_table_is(
    shop: Deployment,
) -> None:
    shop.execute(
        "create table log (id int not null, body text)",
        "alter table log replica identity full",
        "insert into log values (1, 'a')",
    )
    shop.tables = ("public.first", "public.log")
    shop.settings = 'keys = {"public.log" = ["idd"]}\n'
    refused = shop.run("table", "add", "public.log")
    assert refused.returncode == 1
    assert "public.log: key column idd is not published" in refused.stderr
    shop.settings = ""
    with shop.running("capture") as capture:
        shop.captured(capture)
        shop.settings = 'keys = {"public.log" = ["id"]}\n'
        refused = shop.run("table", "add", "public.log")
        assert refused.returncode == 1
        assert "Stop capture, run this again, and start capture" in refused.stderr
    snapshots = json.loads(shop.run("snapshot", "list", "--json").stdout)
    assert [one["kind"] for one in snapshots] == ["initial"]
    told = shop.run("init")
    assert "public.log is not captured: run `headwater table add public.log`" in told.stderr
    assert f"{shop.name}.public.first" in told.stdout
    assert f"{shop.name}.public.log" not in told.stdout

    done = shop.run("table", "add", "public.log")
    assert done.returncode == 0, done.stderr
    with shop.running("capture") as capture:
        shop.execute("update log set body = 'b'", "delete from log")
        shop.captured(capture)
    assert {json.dumps(event.key) for event in shop.events("log")} == {'{"id": 1}'}
