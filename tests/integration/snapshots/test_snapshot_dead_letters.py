"""Rows that are too large for Kafka, in snapshots of every kind, on real servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc.events.capture_dead_letters import DeadLetter, whole
from cdc.kafka.broker import Broker, Record
from cdc.lsn import Position, parse_lsn
from cdc.topics import dead_letters_topic, table_topic
from tests.support.commands.deployment import Deployment, fold

DEAD_LETTER = '[capture]\noversized = "dead_letter"\n'
IN_CHUNKS = "[snapshot]\nchunk_mb = 0.05\n"
ROWS = 3_000
LARGE = range(500, ROWS + 1, 500)
TEXT = "case when i % 500 = 0 then repeat(md5(i::text), 40000) else 'small' end"
SMALL = [i for i in range(1, ROWS + 1) if i not in LARGE]


def large(i: int) -> str:
    import hashlib

    return hashlib.md5(str(i).encode()).hexdigest() * 40_000


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    """A table of which each 500th row has 1,280,000 characters; one without a key, and a bare one
    that both start from."""
    filled = f"select i, {TEXT} from generate_series(1, {ROWS}) i"
    deployment.execute(
        "create table item (id int primary key, name text)",
        f"insert into item {filled}",
        "create table bag (id int, name text)",
        "alter table bag replica identity full",
        f"insert into bag {filled}",
    )
    deployment.extra = DEAD_LETTER + IN_CHUNKS
    return deployment


def letters(shop: Deployment) -> list[DeadLetter]:
    return list(whole(pieces(shop)))


def pieces(shop: Deployment) -> list[Record]:
    topic = dead_letters_topic(shop.name)
    with Broker(shop.bootstrap) as broker:
        return list(broker.read(topic, 0, 0, broker.end_offsets([topic])[topic][0]))


def assert_whole(found: list[DeadLetter], topic: str, lsn: int) -> None:
    """They are the large rows of one table, each once, as of an LSN."""
    rows = {}
    for letter in found:
        assert (letter.topic, letter.position, letter.missing) == (topic, Position(lsn, 0), 0)
        event = json.loads(letter.value)
        assert (event["op"], event["source"]["commit_lsn"]) == ("r", lsn)
        rows[event["after"]["id"]] = event["after"]["name"]
    assert len(found) == len(LARGE)
    assert rows == {i: large(i) for i in LARGE}


def ids(shop: Deployment, topic: str) -> list[int]:
    return sorted(event.value["after"]["id"] for event in shop.topic(topic) if event.value)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_init_stops_at_a_row_or_makes_it_a_dead_letter(shop: Deployment, workers: int) -> None:
    chunks = f"{IN_CHUNKS}workers = {workers}\n"
    shop.extra = chunks
    stopped = shop.run("init")
    assert stopped.returncode == 1
    assert "does not take a record of 1,28" in stopped.stderr
    assert 'set capture.oversized = "dead_letter"' in stopped.stderr
    shop.extra = DEAD_LETTER + chunks
    done = shop.run("init", "--again", "--json")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    for table in ("public.item", "public.bag"):
        assert f"{table}: 6 rows were too large for Kafka and are dead letters" in said
    outcome = json.loads(done.stdout)
    tables = ("public.bag", "public.item")
    assert outcome["rows"] == dict.fromkeys(tables, len(SMALL))
    assert outcome["dead_letters"] == dict.fromkeys(tables, len(LARGE))
    lsn = parse_lsn(outcome["consistent_point"])
    for name in ("item", "bag"):
        topic = table_topic(shop.name, "public", name)
        of_table = [one for one in letters(shop) if one.topic == topic]
        assert_whole([one for one in of_table if one.position.commit_lsn == lsn], topic, lsn)
        rows = [event for event in shop.events(name) if event.value and event.value["op"] == "r"]
        assert [e.value["after"]["id"] for e in rows if e.position == (lsn, 0) and e.value] != []
        if workers == 1 and name == "item":  # tables go by name: its last row is the last of all
            (last,) = [e for e in rows if e.value and e.value["source"]["snapshot"] == "last"]
            assert last.value is not None
            assert last.value["after"]["id"] == ROWS - 1
    again = shop.run("init")
    assert "dead letters" in again.stdout
    listed = json.loads(shop.run("snapshot", "list", "--json").stdout)
    assert [(one["rows"], one["dead_letters"]) for one in listed] == [(2 * len(SMALL), 12)]


def test_a_snapshots_dead_letter_is_what_the_stream_would_write(shop: Deployment) -> None:
    shop.execute("truncate item", "truncate bag")
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item select 500, repeat(md5('500'), 40000)")
        shop.captured(capture)
    streamed = pieces(shop)
    found = start(shop, "public.item")
    taken = pieces(shop)[len(streamed) :]
    assert len(taken) == len(streamed)
    for of_stream, of_snapshot in zip(streamed, taken, strict=True):
        assert of_stream.key is of_snapshot.key is None
        assert [n for n, _ in of_stream.headers] == [n for n, _ in of_snapshot.headers]
        told, own = dict(of_stream.headers), dict(of_snapshot.headers)
        assert {n for n in told if told[n] != own[n]} <= {"topic", "position", "cause"}
    one, other = letters(shop)
    assert other.topic == found["tables"][0]["topic"]
    event, same = json.loads(one.value), json.loads(other.value)
    assert list(event) == list(same)
    assert list(event["source"]) == list(same["source"])
    assert event["after"] == same["after"]
    assert (one.key, event["source"]["schema_id"]) == (other.key, same["source"]["schema_id"])
    position = parse_lsn(found["lsn"])
    shown = shop.run("dead-letters", "show", Position(position, 0).hex())
    assert json.loads(shown.stdout) == same


def start(shop: Deployment, *arguments: str) -> dict[str, Any]:
    done = shop.run("snapshot", "start", "--json", "--rate", "none", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_two_workers_on_demand_leave_every_row_in_its_topic_or_among_dead_letters(
    shop: Deployment,
) -> None:
    shop.init()
    before = len(letters(shop))
    with shop.running("capture") as capture:
        shop.captured(capture)
    # Committed while capture is away, below the snapshot's LSN: its own dead letter is to come.
    shop.execute("insert into item select 500000, repeat(md5('500'), 40000)")
    shop.execute("update item set name = 'small' where id = 500000")
    for name in ("item", "bag"):
        found = start(shop, f"public.{name}", "--workers", "2")
        (table,) = found["tables"]
        assert table["chunks"] > 1
        extra = [500000] if name == "item" else []
        assert ids(shop, table["topic"]) == [*SMALL, *extra]
        counted = (len(SMALL) + len(extra), len(LARGE))
        assert (found["rows"], found["dead_letters"]) == counted
        assert (table["rows"], table["dead_letters"]) == counted
        of_it = [one for one in letters(shop) if one.topic == table["topic"]]
        assert_whole(of_it, table["topic"], parse_lsn(found["lsn"]))
    shown = shop.run("snapshot", "status", str(found["id"]))
    assert "public.bag: 6 rows were too large for Kafka and are dead letters" in shown.stdout
    position = Position(parse_lsn(found["lsn"]), 0).hex()
    third = shop.run("dead-letters", "show", f"{position}-3")
    assert json.loads(third.stdout)["after"]["name"] in {large(i) for i in LARGE}
    with shop.running("capture") as capture:
        shop.captured(capture)
    stream = [one for one in letters(shop)[before:] if one.position.ordinal]
    assert [json.loads(one.value)["after"]["id"] for one in stream] == [500000]
    with shop.running("capture") as capture:  # nor is it written twice
        shop.captured(capture)
    assert len([one for one in letters(shop) if one.position.ordinal]) == 1


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.exhaustive), "2"])
def test_a_snapshot_on_demand_that_stops_goes_on_when_told_to_cut(
    shop: Deployment, workers: str
) -> None:
    shop.init()
    shop.extra = IN_CHUNKS
    stopped = shop.run("snapshot", "start", "public.item", "--workers", workers)
    assert stopped.returncode == 1
    assert 'set capture.oversized = "dead_letter"' in stopped.stderr
    assert "headwater snapshot resume" in stopped.stderr
    failed = json.loads(shop.run("snapshot", "list", "--json").stdout)[-1]
    assert (failed["status"], failed["dead_letters"]) == ("failed", 0)
    shop.extra = DEAD_LETTER + IN_CHUNKS
    done = shop.run("snapshot", "resume", str(failed["id"]), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["rows"], found["dead_letters"]) == (len(SMALL), len(LARGE))
    assert set(ids(shop, found["tables"][0]["topic"])) == set(SMALL)


def test_a_table_that_joins_brings_its_large_rows_as_dead_letters(shop: Deployment) -> None:
    shop.tables = ("public.bag",)
    shop.init()
    shop.tables = ("public.bag", "public.item")
    added = shop.run("table", "add", "public.item", "--json")
    assert added.returncode == 0, added.stderr
    (found,) = json.loads(added.stdout)
    assert (found["rows"], found["dead_letters"]) == (len(SMALL), len(LARGE))
    topic = table_topic(shop.name, "public", "item")
    assert sorted(fold(shop.events("item"))) == sorted(f'{{"id": {i}}}' for i in SMALL)
    of_it = [one for one in letters(shop) if one.topic == topic]
    assert_whole(of_it, topic, parse_lsn(found["lsn"]))
