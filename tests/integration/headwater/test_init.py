"""``headwater init`` from the command line: made, repeated, interrupted, refused."""

from __future__ import annotations

import json

import psycopg
import pytest

from cdc.events.marks import decode_mark
from cdc.kafka.broker import Broker
from cdc.kafka.bulk_producer import BulkProducer
from cdc.lsn import parse_lsn
from cdc.source.postgres import connect
from cdc.source.slot import drop_slot, slot_state
from snapshots.state import read_state
from tests.support.commands.deployment import Deployment, fold
from tests.support.waiting import wait_until

WAITING = "select 1 from pg_locks where relation = 'public.b'::regclass and not granted"


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute(
        "create table public.a (id int primary key, v text)",
        "insert into public.a select i, 'a' || i from generate_series(1, 3000) i",
        "create table public.b (id int primary key)",
        "insert into public.b values (1), (2)",
    )
    return deployment


def slot_of(shop: Deployment) -> str:
    return f"headwater_{shop.name}"


def topics(shop: Deployment) -> list[str]:
    names = ("public.a", "public.b", "message", "__schemas", "__progress")
    wanted = [f"{shop.name}.{name}" for name in names]
    with Broker(shop.bootstrap) as broker:
        return sorted(broker.partitions(wanted))


def values(shop: Deployment, topic: str) -> list[bytes]:
    """The values in a topic of one partition."""
    name = f"{shop.name}.{topic}"
    with Broker(shop.bootstrap) as broker:
        end = broker.end_offsets([name])[name][0]
        return [r.value for r in broker.read(name, 0, 0, end) if r.value is not None]


def status(shop: Deployment) -> str | None:
    with connect(shop.dsn) as conn:
        state = read_state(conn, shop.name)
    return state.status if state else None


def test_it_makes_everything_and_publishes_every_row_before_the_mark(shop: Deployment) -> None:
    """Rows carry the time they were read. A second run changes nothing and says what stands."""
    done = shop.run("init", "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["rows"] == {"public.a": 3000, "public.b": 2}
    assert sorted(outcome["topics"]) == topics(shop)
    events = shop.events("a")
    assert len(events) == 3000
    assert {e.value["op"] for e in events if e.value} == {"r"}
    lsn = parse_lsn(outcome["consistent_point"])
    assert {e.position for e in events} == {(lsn, 0)}
    (value,) = values(shop, "__progress")
    mark = decode_mark(value, "progress")
    with Broker(shop.bootstrap) as broker:
        tables = [f"{shop.name}.public.a", f"{shop.name}.public.b", f"{shop.name}.message"]
        assert mark.offsets == broker.end_offsets(tables)
    assert (mark.confirmed, mark.slot) == (lsn, slot_of(shop))
    described = [json.loads(value) for value in values(shop, "__schemas")]
    assert {relation["table"] for relation in described} == {"a", "b"}
    assert status(shop) == "complete"
    for event in shop.events("b"):
        assert event.value is not None
        assert event.timestamp_ms == event.value["source"]["ts_ms"]
    again = shop.run("init", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == {**outcome, "created": False}
    assert len(shop.events("a")) == 3000


def test_without_a_snapshot_the_stream_begins_at_the_slot(shop: Deployment) -> None:
    done = shop.run("init", "--no-snapshot", "--json")
    assert done.returncode == 0, done.stderr
    assert shop.events("a") == []
    assert status(shop) == "complete"


def test_a_run_killed_midway_goes_on_where_it_was(shop: Deployment) -> None:
    shop.execute("insert into public.a select i, 'a' || i from generate_series(3001, 60000) i")
    shop.extra = "[snapshot]\nchunk_mb = 0.05"
    with shop.running("init") as process, connect(shop.dsn) as conn:

        def reading() -> bool:
            assert process.poll() is None, shop.log("init")
            if slot_state(conn, slot_of(shop)) is None:
                return False
            row = conn.execute(
                "select count(*) from headwater.snapshot_chunk where lsn is not null"
            ).fetchone()
            return row is not None and row[0] > 0

        wait_until(reading, "a chunk to be in Kafka")
        with psycopg.connect(shop.dsn) as blocker:
            # Not before the chunks are planned, which looks at each table.
            blocker.execute("lock table public.b in access exclusive mode")

            def stuck() -> bool:
                assert process.poll() is None, shop.log("init")
                return bool(conn.execute(WAITING).fetchone())

            wait_until(stuck, "init to wait for public.b")
            second = shop.run("init")
            assert second.returncode == 1
            assert "another `headwater init` is running" in second.stderr
            process.kill()
    assert status(shop) == "running"
    refused = shop.run("capture")
    assert refused.returncode == 1
    assert "headwater init" in refused.stderr
    shop.execute(
        "delete from public.a where id <= 100",
        "update public.a set v = 'moved' where id between 101 and 200",
    )
    read = shop.records("a")
    done = shop.run("init")
    assert done.returncode == 0, done.stderr
    assert "going on with the snapshot" in done.stderr
    assert shop.records("a") - read < 20_000
    with shop.running("capture") as capture:
        shop.captured(capture)
    rows = fold(shop.events("a"))
    assert sorted(row["id"] for row in rows.values()) == list(range(101, 60_001))
    moved = [row["id"] for row in rows.values() if row["v"] == "moved"]
    assert sorted(moved) == list(range(101, 201))


def test_what_cannot_go_on_starts_over_and_no_deleted_row_survives(shop: Deployment) -> None:
    shop.init()
    with connect(shop.dsn) as conn:
        conn.execute("update headwater.snapshot set status = 'running'")
        drop_slot(conn, slot_of(shop))
    shop.execute("delete from public.a where id <= 100")
    done = shop.run("init")
    assert done.returncode == 0, done.stderr
    assert f"cannot go on: slot {slot_of(shop)} is gone" in done.stderr
    assert {row["id"] for row in fold(shop.events("a")).values()} == set(range(101, 3001))


def test_a_topic_that_lost_its_rows_is_filled_again(shop: Deployment) -> None:
    shop.init()
    topic = f"{shop.name}.public.a"
    with Broker(shop.bootstrap) as broker:
        broker.delete_topics([topic])
        wait_until(lambda: topic not in broker.partitions([topic]), "the topic to be gone")
    shop.execute("update headwater.snapshot set status = 'running'")
    done = shop.run("init")
    assert done.returncode == 0, done.stderr
    assert "Kafka holds less of public.a than it had" in done.stderr
    assert len(fold(shop.events("a"))) == 3000
    assert len(shop.events("b")) == 2


def test_a_refused_run_leaves_nothing_half_done(shop: Deployment) -> None:
    shop.execute("create table public.bare (v int)")
    refused = shop.run("init")
    assert refused.returncode == 1
    assert "public.bare has no replica identity" in refused.stderr
    assert "REPLICA IDENTITY FULL" in refused.stderr
    assert "Traceback" not in refused.stderr
    with connect(shop.dsn) as conn:
        assert conn.execute("select to_regnamespace('headwater')").fetchone() == (None,)
        assert conn.execute("select count(*) from pg_publication").fetchone() == (0,)
        assert slot_state(conn, slot_of(shop)) is None
    assert topics(shop) == []


def test_a_publication_of_somebody_else_is_changed_when_that_is_asked_for(shop: Deployment) -> None:
    shop.execute(
        "create table public.theirs (id int primary key)",
        f"create publication fed_{shop.name} for table public.theirs, public.a",
    )
    shop.tables = ("public.a", "public.b")
    shop.settings = f'publication = "fed_{shop.name}"\n'
    published = f"select tablename from pg_publication_tables where pubname = 'fed_{shop.name}'"

    code, found = shop.check()
    (warned,) = [one for one in found["warning"] if one["check"] == "publication"]
    assert code == 0
    for refusal in (shop.run("init"), shop.run("init", "--again")):
        assert refusal.returncode == 1
        said = " ".join(refusal.stderr.split())
        assert f"publication fed_{shop.name} was there, and does not fit source.tables" in said
        for statement in warned["sql"]:
            assert statement in said
        assert "Add --take-publication to `headwater init`" in said
    with connect(shop.dsn) as conn:
        assert {name for (name,) in conn.execute(published.encode())} == {"a", "theirs"}
        assert conn.execute("select to_regnamespace('headwater')").fetchone() == (None,)

    done = shop.run("init", "--take-publication")
    assert done.returncode == 0, done.stderr
    with connect(shop.dsn) as conn:
        assert {name for (name,) in conn.execute(published.encode())} == {"a", "b"}
    again = shop.run("init", "--again")  # it fits now
    assert again.returncode == 0, again.stderr


def test_a_dropped_slot_is_an_error_and_again_is_the_way_out(shop: Deployment) -> None:
    """But not while capture reads it."""
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        refused = shop.run("init", "--again")
        assert refused.returncode == 1
        assert "is in use by" in refused.stderr
        shop.execute("insert into public.b values (3)")
        shop.captured(capture)
    assert status(shop) == "complete"
    with connect(shop.dsn) as conn:
        drop_slot(conn, slot_of(shop))
    refused = shop.run("init")
    assert refused.returncode == 1
    assert f"slot {slot_of(shop)} is gone" in refused.stderr
    assert "headwater init --again" in refused.stderr
    shop.execute("delete from public.a where id = 1", "insert into public.a values (0, 'new')")
    done = shop.run("init", "--again")
    assert done.returncode == 0, done.stderr
    ids = {row["id"] for row in fold(shop.events("a")).values()}
    assert ids == {0, *range(2, 3001)}


def test_a_slot_that_init_did_not_make_is_not_touched(shop: Deployment) -> None:
    shop.execute(f"select pg_create_logical_replication_slot('{slot_of(shop)}', 'pgoutput')")
    refused = shop.run("init")
    assert refused.returncode == 1
    assert "`headwater init` did not create it" in refused.stderr
    with connect(shop.dsn) as conn:
        assert slot_state(conn, slot_of(shop)) is not None


def test_topics_of_another_history_are_refused(shop: Deployment) -> None:
    shop.init()
    (value,) = values(shop, "__progress")
    producer = BulkProducer(shop.bootstrap)
    foreign = json.dumps({**json.loads(value), "system_id": "1"}).encode()
    producer.send(f"{shop.name}.__progress", [shop.name.encode()], [foreign], 1)
    producer.flush()
    refused = shop.run("init", "--again")
    assert refused.returncode == 1
    assert "another database or history" in refused.stderr
    assert status(shop) == "complete"


def test_events_of_a_lost_timeline_are_not_continued_below(shop: Deployment) -> None:
    """Kafka holds what a promoted server never had: until its WAL is past that, whatever it wrote
    would be taken for published."""
    shop.init()
    source = {"commit_lsn": 1 << 60, "ordinal": 1}
    event = json.dumps({"op": "c", "source": source}).encode()
    producer = BulkProducer(shop.bootstrap)
    producer.send(f"{shop.name}.public.a", [b'{"id":1}'], [event], 1)
    producer.flush()
    refused = shop.run("init", "--again")
    assert refused.returncode == 1
    assert "another database or history" in refused.stderr
    assert "10000000/0" in refused.stderr
    assert status(shop) == "complete"
