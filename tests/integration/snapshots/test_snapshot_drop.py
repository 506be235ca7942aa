"""``headwater snapshot drop``: what is over is deleted, what is needed stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc.kafka.broker import Broker
from jobs.generations.declaration import Declaration
from jobs.generations.generation_record import Generation, Generations, write_generations
from jobs.generations.view_state import view_directory
from tests.support.commands.deployment import Deployment
from tests.support.waiting import wait_until


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute(
        "create table item (id int primary key, kind text)",
        "insert into item select i, 'k' from generate_series(1, 2000) i",
        "create table late (id int primary key)",
        "insert into late values (1)",
    )
    deployment.tables = ("public.item",)
    deployment.init()
    return deployment


def start(shop: Deployment, *arguments: str) -> dict[str, Any]:
    done = shop.run("snapshot", "start", "--json", "public.item", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def listed(shop: Deployment) -> dict[int, str]:
    found = json.loads(shop.run("snapshot", "list", "--json").stdout)
    return {one["id"]: one["status"] for one in found}


def topics(shop: Deployment) -> list[str]:
    with Broker(shop.bootstrap) as broker:
        return sorted(broker.topics(f"{shop.name}.__snapshot."))


def refused(shop: Deployment, *ids: int) -> str:
    done = shop.run("snapshot", "drop", *map(str, ids))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def left_of(shop: Deployment, snapshot_id: int) -> int:
    """Rows that the schema headwater has of a snapshot."""
    tables = ("snapshot_table", "snapshot_chunk", "snapshot_point")
    with psycopg.connect(shop.dsn) as conn:
        query = " union all ".join(
            f"select count(*) from headwater.{table} where snapshot_id = {snapshot_id}"
            for table in tables
        )
        return sum(row[0] for row in conn.execute(query.encode()).fetchall())


def test_a_finished_snapshot_is_dropped_with_its_topics_and_records(shop: Deployment) -> None:
    first, second, third = (start(shop)["id"] for _ in range(3))
    kept = f"{shop.name}.__snapshot.{second}.public.item"
    dropped = shop.run("snapshot", "drop", str(first), str(third), "--json")
    assert dropped.returncode == 0, dropped.stderr
    said = json.loads(dropped.stdout)
    assert [(one["id"], one["status"], one["rows"]) for one in said] == [
        (first, "complete", 2000),
        (third, "complete", 2000),
    ]
    assert [one["topics"] for one in said] == [
        [f"{shop.name}.__snapshot.{id_}.public.item"] for id_ in (first, third)
    ]
    wait_until(lambda: topics(shop) == [kept], "the topics to be gone")
    assert list(listed(shop).values()) == ["complete", "complete"]
    assert left_of(shop, first) == left_of(shop, third) == 0
    assert left_of(shop, second) > 0
    assert f"has no snapshot {first}\n  hint: Run `headwater snapshot list`" in refused(shop, first)
    assert "1 topic" in shop.run("snapshot", "drop", str(second)).stdout
    wait_until(lambda: topics(shop) == [], "the last topic to be gone")


def test_one_that_stays_keeps_those_named_with_it(shop: Deployment) -> None:
    found = start(shop)["id"]
    assert "has no snapshot 4711" in refused(shop, found, 4711)
    initial = min(listed(shop))
    assert "is the initial one" in refused(shop, found, initial)
    assert listed(shop) == {initial: "complete", found: "complete"}
    assert len(topics(shop)) == 1


def test_one_that_runs_is_paused_or_failed_names_the_verb_to_use(shop: Deployment) -> None:
    shop.extra = "[snapshot]\nchunk_mb = 0.02"
    arguments = ("start", "public.item", "--rate", "40 rows/s")
    with shop.running("snapshot", *arguments) as process:

        def running() -> int:
            assert process.poll() is None, shop.log("snapshot")
            return max(id_ for id_, status in listed(shop).items() if status == "running")

        def underway() -> int:
            found = json.loads(shop.run("snapshot", "list", "--json").stdout)[-1]
            assert process.poll() is None, shop.log("snapshot")
            return int(found["id"]) if found["status"] == "running" else 0

        snapshot_id = wait_until(underway, "a snapshot to run")
        assert running() == snapshot_id
        assert f"Run `headwater snapshot cancel {snapshot_id}` to end it" in refused(
            shop, snapshot_id
        )
        process.kill()
        process.wait()
    wait_until(lambda: listed(shop)[snapshot_id] == "interrupted", "its session to be gone")
    said = refused(shop, snapshot_id)
    assert f"snapshot {snapshot_id} is interrupted" in said
    assert f"Run `headwater snapshot resume {snapshot_id}` to continue" in said
    assert f"run `headwater snapshot cancel {snapshot_id}` to end it" in said
    assert shop.run("snapshot", "cancel", str(snapshot_id)).returncode == 0
    assert shop.run("snapshot", "drop", str(snapshot_id)).returncode == 0
    assert snapshot_id not in listed(shop)


def test_one_that_took_a_table_in_stays_and_the_tables_topic_with_it(shop: Deployment) -> None:
    shop.tables = ("public.item", "public.late")
    assert shop.run("table", "add", "public.late").returncode == 0
    said = refused(shop, max(listed(shop)))
    assert "added public.late to the stream" in said
    assert len(shop.events("late")) == 1


@pytest.mark.parametrize("phase", ["snapshotting", "snapshotted"])
def test_one_that_a_view_is_built_from_stays_until_the_view_has_it(
    shop: Deployment, tmp_path: Path, phase: Any
) -> None:
    shop.extra = f'[apply]\nstate = "{tmp_path / "state"}"'
    snapshot_id = start(shop)["id"]
    directory = view_directory(str(tmp_path / "state"), shop.name, "open_items")
    declared = Declaration("select * from item", ("id",), "search", "public.item")
    building = Generation(1, phase, declared, snapshot=str(snapshot_id))
    write_generations(directory, Generations("open_items", {1: building}))
    said = refused(shop, snapshot_id)
    assert f"view open_items is being built from snapshot {snapshot_id}" in said
    assert "Run `headwater view rebuild open_items` to continue" in said
    assert len(topics(shop)) == 1
    loaded = Generation(1, "loaded", declared, snapshot=str(snapshot_id))
    write_generations(directory, Generations("open_items", {1: loaded}))
    assert shop.run("snapshot", "drop", str(snapshot_id)).returncode == 0
