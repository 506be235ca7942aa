"""``headwater snapshot`` from the command line, while capture streams."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import psycopg
import pytest

from cdc.kafka.broker import Broker
from cdc.lsn import parse_lsn
from tests.snapshots.run import workers_of
from tests.support.commands.deployment import Deployment, Event, fold
from tests.support.waiting import wait_until

ROWS = 5_000
SLOW = "200 rows/s"
"""Half a minute for all of them: enough to pause or cancel it, on a busy machine too."""
SMALL = "[snapshot]\nchunk_mb = 0.02"
"""Some 300 rows in a chunk."""


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute(
        "create table public.item (id int primary key, kind text, note text)",
        "insert into public.item select i, 'k' || i % 3, repeat('n', i % 50)"
        f" from generate_series(1, {ROWS}) i",
        "create table public.other (id int primary key)",
        "insert into public.other values (1)",
    )
    deployment.init()
    return deployment


def start(shop: Deployment, *arguments: str) -> dict[str, Any]:
    done = shop.run("snapshot", "start", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def rows(shop: Deployment, found: dict[str, Any]) -> list[Event]:
    (table,) = found["tables"]
    assert table["topic"] == f"{shop.name}.__snapshot.{found['id']}.{table['table']}"
    return shop.topic(table["topic"])


def ids(events: list[Event]) -> list[int]:
    return sorted(event.value["after"]["id"] for event in events if event.value)


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.exhaustive), "2"])
def test_rows_go_to_a_topic_of_their_own_while_capture_streams(
    shop: Deployment, workers: str
) -> None:
    before = shop.events("item")
    with shop.running("capture") as capture:
        shop.execute("update public.item set note = 'new' where id <= 10")
        found = start(shop, "public.item", "--workers", workers)
        shop.execute("delete from public.item where id = 1")
        shop.captured(capture)
    events = rows(shop, found)
    assert ids(events) == list(range(1, ROWS + 1))
    assert {event.position for event in events} == {(parse_lsn(found["lsn"]), 0)}
    assert {event.value["op"] for event in events if event.value} == {"r"}
    assert (found["status"], found["rows"]) == ("complete", ROWS)
    assert [e.value for e in shop.events("item") if e.value and e.value["op"] == "r"] == [
        e.value for e in before
    ]
    images = fold(events)
    for key, image in fold(shop.events("item")).items():
        assert images[key] == image


def test_where_and_key_range_choose_rows(shop: Deployment) -> None:
    some = rows(shop, start(shop, "public.item", "--where", "kind = 'k1' -- of three"))
    assert ids(some) == [i for i in range(1, ROWS + 1) if i % 3 == 1]
    ranged = rows(shop, start(shop, "public.item", "--key-range", "100:200", "--rate", "none"))
    assert ids(ranged) == list(range(100, 200))
    tail = rows(shop, start(shop, "public.item", "--key-range", f"{ROWS - 10}:"))
    assert ids(tail) == list(range(ROWS - 10, ROWS + 1))


def test_a_snapshot_is_listed_shown_and_cancelled(shop: Deployment) -> None:
    found = start(shop, "public.item")
    listed = json.loads(shop.run("snapshot", "list", "--json").stdout)
    assert [(one["kind"], one["status"]) for one in listed] == [
        ("initial", "complete"),
        ("on_demand", "complete"),
    ]
    assert "on demand" in shop.run("snapshot", "list").stdout
    shown = shop.run("snapshot", "status", str(found["id"]))
    assert "public.item" in shown.stdout
    assert "100%" in shown.stdout
    for verb, one in (("cancel", found), ("pause", listed[0])):  # whoever began it
        over = shop.run("snapshot", verb, str(one["id"]))
        assert over.returncode == 1
        assert "is complete\n  hint: Run `headwater snapshot list`." in over.stderr
    with Broker(shop.bootstrap) as broker:
        assert found["tables"][0]["topic"] in broker.partitions([found["tables"][0]["topic"]])


REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("public.itm",), "Did you mean public.item?"),
    (("public.late",), "public.late is not in publication"),
    (("public.bare",), "has no replica identity"),
    (("public.item", "--where", "nonsense = 1"), 'column "nonsense" does not exist'),
    (("public.item", "--where", "id > 1; select 1"), "--where: syntax error"),
    (("public.item", "--key-range", "x:y"), "the value that is not in the format of its type"),
    (("public.item", "--key-range", "5"), "is not LO:HI"),
    (("public.item", "--key-range", "10:5"), "10 is not below 5"),
    (("public.item", "--rate", "fast"), "is not a rate"),
    (("--view", "itms"), "no view 'itms'\n  hint: Choose a declared view: none"),
    ((), "name a table, or a view with --view"),
)


def test_what_cannot_be_read_is_refused_with_the_way_out(shop: Deployment) -> None:
    shop.execute(
        "create table public.late (id int primary key)", "create table public.bare (id int)"
    )
    for arguments, said in REFUSED:
        refused = shop.run("snapshot", "start", *arguments)
        assert refused.returncode != 0, arguments
        assert said in refused.stderr
        assert "Traceback" not in refused.stderr
    listed = json.loads(shop.run("snapshot", "list", "--json").stdout)
    assert [one["kind"] for one in listed] == ["initial"], "nothing is left of what cannot be"


def test_the_table_of_a_view_is_read_and_the_newest_snapshot_shown(shop: Deployment) -> None:
    shop.extra = """
[stores.cache]
kind = "redis"
url = "redis://127.0.0.1:1/0"
[views.kinds]
store = "cache"
key = ["id"]
sql = "select id, kind from item where id < 10"
"""
    found = start(shop, "--view", "kinds")
    assert ids(rows(shop, found)) == list(range(1, ROWS + 1))
    newest = json.loads(shop.run("snapshot", "status", "--json").stdout)
    assert newest["id"] == found["id"]


INJECTED = (
    "true); commit; drop table public.other; select (true",
    "true then true end; commit; drop table public.other; select case when true",
    "true) or (true",
)


def test_a_condition_is_one_condition_and_no_other_statement(shop: Deployment) -> None:
    for where in INJECTED:
        refused = shop.run("snapshot", "start", "public.item", "--where", where, "--rate", "none")
        assert refused.returncode == 1, refused.stdout
        assert "--where" in refused.stderr
        shop.execute("select from public.other")


def test_a_cancelled_snapshot_that_failed_early_leaves_no_topic(shop: Deployment) -> None:
    refused = shop.run("snapshot", "start", "public.item", "--where", "1 / (id - 7) > 1")
    assert refused.returncode == 1
    assert "resume" not in refused.stderr, "it would be refused again"
    failed = json.loads(shop.run("snapshot", "list", "--json").stdout)[-1]
    with Broker(shop.bootstrap) as broker:
        assert broker.topics(f"{shop.name}.__snapshot.{failed['id']}.") != []
        assert shop.run("snapshot", "cancel", str(failed["id"])).returncode == 0
        wait_until(lambda: broker.topics(f"{shop.name}.__snapshot.") == [], "its topic to be gone")


def test_without_init_it_says_so(deployment: Deployment) -> None:
    deployment.execute("create table public.item (id int primary key)")
    for command in (("list",), ("start", "public.item"), ("status", "1")):
        refused = deployment.run("snapshot", *command)
        assert refused.returncode == 1
        assert "Run `headwater init`" in refused.stderr


def test_no_free_slot_is_said_before_anything_is_made(shop: Deployment) -> None:
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        row = conn.execute(
            "select count(pg_create_physical_replication_slot('full_' || i, false, true)) "
            "from generate_series(1, current_setting('max_replication_slots')::int "
            "- (select count(*)::int from pg_replication_slots)) i"
        ).fetchone()
        assert row is not None
        refused = shop.run("snapshot", "start", "public.item")
    assert refused.returncode == 1
    assert "replication slots are taken" in refused.stderr
    assert "Raise max_replication_slots, or drop one" in refused.stderr
    assert len(json.loads(shop.run("snapshot", "list", "--json").stdout)) == 1


def test_a_killed_worker_costs_a_round_and_no_row(shop: Deployment) -> None:
    shop.extra = SMALL
    arguments = ("start", "public.item", "--workers", "2", "--rate", "1000 rows/s", "--json")
    with shop.running("snapshot", *arguments) as process:

        def underway() -> bool:
            assert process.poll() is None, shop.log("snapshot")
            found = json.loads(shop.run("snapshot", "list", "--json").stdout)[-1]
            return bool(found["kind"] == "on_demand" and found["rows"])

        wait_until(underway, "a chunk to be read")
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        assert process.wait(120) == 0, shop.log("snapshot")
    assert "ended with code -9: going on at a later LSN" in shop.log("snapshot")
    found = json.loads(shop.run("snapshot", "list", "--json").stdout)[-1]
    assert (found["status"], len(found["points"])) == ("complete", 2)
    assert set(ids(rows(shop, found))) == set(range(1, ROWS + 1))


def test_a_paused_snapshot_goes_on_where_it_was_and_a_cancelled_one_leaves_nothing(
    shop: Deployment,
) -> None:
    shop.extra = SMALL
    with shop.running("snapshot", "start", "public.item", "--rate", SLOW) as process:

        def reading() -> dict[str, Any]:
            assert process.poll() is None, shop.log("snapshot")
            found = json.loads(shop.run("snapshot", "list", "--json").stdout)[-1]
            assert (found["kind"], found["status"]) == ("on_demand", "running")
            assert found["rows"] > 0
            return found  # type: ignore[no-any-return]

        found = wait_until(reading, "a chunk to be read")
        snapshot_id = str(found["id"])
        second = shop.run("snapshot", "resume", snapshot_id)
        assert f"another process is running snapshot {snapshot_id}" in second.stderr
        asked = shop.run("snapshot", "pause", snapshot_id)
        assert "pause when the chunks it reads are done" in asked.stdout
        assert process.wait() == 1
    paused = json.loads(shop.run("snapshot", "status", snapshot_id, "--json").stdout)
    assert paused["status"] == "paused"
    assert 0 < paused["rows"] < ROWS
    shop.execute(
        "update public.item set note = 'late' where id <= 5",
        f"""update headwater.snapshot set options = options || '{{"rate": "none"}}'
            where id = {snapshot_id}""",
    )
    done = shop.run("snapshot", "resume", snapshot_id, "--json")
    assert done.returncode == 0, done.stderr
    resumed = json.loads(done.stdout)
    assert len(resumed["points"]) == 2
    events = rows(shop, resumed)
    assert len(events) <= ROWS + 2 * 5 + 500  # the chunk that was read is read to its end
    assert set(ids(events)) == set(range(1, ROWS + 1))
    images = fold(events)
    assert [images[f'{{"id": {i}}}']["note"] for i in range(1, 6)] == ["late"] * 5

    with shop.running("snapshot", "start", "public.item", "--rate", SLOW) as process:
        found = wait_until(reading, "a chunk of the second to be read")
        assert shop.run("snapshot", "cancel", str(found["id"])).returncode == 0
        assert process.wait() == 1
    over = json.loads(shop.run("snapshot", "status", str(found["id"]), "--json").stdout)
    assert over["status"] == "cancelled"
    with Broker(shop.bootstrap) as broker:
        wait_until(
            lambda: not broker.partitions([found["tables"][0]["topic"]]), "its topic to be gone"
        )
