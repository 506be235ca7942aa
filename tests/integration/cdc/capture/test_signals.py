"""Snapshots asked for by a row or a record, taken by a running capture."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from confluent_kafka import Producer

from cdc.kafka.broker import Broker
from tests.support.commands.deployment import Deployment
from tests.support.waiting import wait_until

MANY = [f"public.t{i}" for i in range(21)]
BEATS = "[capture]\nheartbeat_s = 0.5\n"


def answered(shop: Deployment, id_: str) -> str:
    """The answer of a signal."""

    def answer() -> str | None:
        with psycopg.connect(shop.dsn) as conn:
            query = "select answer from headwater.signal where id = %s"
            row = conn.execute(query, (id_,)).fetchone()
        return row[0] if row else None

    return str(wait_until(answer, f"an answer to signal {id_}", 120))


def send(shop: Deployment, *signals: tuple[str, str, object]) -> None:
    """Signals as rows: id, type, data."""
    with psycopg.connect(shop.dsn) as conn:
        insert = "insert into headwater.signal (id, type, data) values (%s, %s, %s)"
        for id_, type_, data in signals:
            conn.execute(insert, (id_, type_, json.dumps(data)))


def signal(shop: Deployment, id_: str, type_: str, data: object) -> str:
    send(shop, (id_, type_, data))
    return answered(shop, id_)


def status(shop: Deployment, snapshot: str) -> dict[str, Any]:
    done = shop.run("snapshot", "status", snapshot, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def complete(shop: Deployment, answer: str) -> dict[str, Any]:
    snapshot = answer.removeprefix("snapshot ")
    return wait_until(
        lambda: (found := status(shop, snapshot))["status"] == "complete" and found,
        f"snapshot {snapshot} to be complete",
        120,
    )


def _filtered(condition: str, *tables: str) -> dict[str, Any]:
    names = tables or ["public.item"]
    each = [{"data-collection": name, "filter": condition} for name in names]
    return {"data-collections": names, "additional-conditions": each}


def test_a_row_in_debeziums_words_takes_a_snapshot(shop: Deployment) -> None:
    shop.extra = BEATS
    shop.execute("insert into item select i, 'n' || i from generate_series(1, 100) i")
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        whole = signal(shop, "a", "execute-snapshot", {"data-collections": ["public.item"]})
        assert complete(shop, whole)["rows"] == 100
        data = {
            "data-collections": ["public.item"],
            "type": "incremental",
            "additional-conditions": [{"data-collection": "public.item", "filter": "id <= 7"}],
        }
        assert complete(shop, signal(shop, "b", "execute-snapshot", data))["rows"] == 7
        assert signal(shop, "c", "log", {"message": "hello there"}) == "hello there"
        assert "hello there" in shop.log("capture")
        refused: tuple[tuple[str, str, object, str], ...] = (
            ("d", "execute-snapshot", {"data-collections": ["public.absent"]}, "does not exist"),
            ("e", "execute-snapshot", {}, "data-collections names no table"),
            ("f", "stop-snapshot", {}, "no snapshot of that is open"),
            ("g", "no-such-thing", {}, "no signal that Headwater knows"),
            ("h", "execute-snapshot", _filtered("id = (select 1)"), "compares columns with"),
            ("i", "execute-snapshot", _filtered("pg_sleep(9) is null"), "compares columns with"),
            ("j", "execute-snapshot", _filtered("absent = 1"), "does not exist"),
            ("k", "execute-snapshot", _filtered("id = 1", *MANY), "20 may be"),
        )
        send(shop, *(one[:3] for one in refused))  # capture looks once a second
        for id_, _, _, said in refused:
            answer = answered(shop, id_)
            assert answer.startswith("refused: ")
            assert said in answer


def test_a_snapshot_goes_on_with_the_next_capture(shop: Deployment) -> None:
    shop.extra = BEATS + '[snapshot]\nrate = "500 rows/s"\nchunk_mb = 0.02\n'
    shop.execute("insert into item select i, repeat('x', 200) from generate_series(1, 4000) i")
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        answer = signal(shop, "slow", "execute-snapshot", {"data-collections": ["public.item"]})
        number = answer.removeprefix("snapshot ")
        wait_until(lambda: status(shop, number)["rows"] > 0, "some chunks", 120)
    assert status(shop, number)["status"] != "complete"
    shop.execute(
        f"""update headwater.snapshot set options = options || '{{"rate": "none"}}'
            where id = {number}"""
    )
    shop.extra = BEATS
    with shop.running("capture") as capture:
        shop.captured(capture)
        assert complete(shop, answer)["rows"] == 4000


def test_a_record_does_the_same_once(shop: Deployment) -> None:
    shop.extra = BEATS + 'signals = ["source", "kafka"]\n'
    shop.execute("insert into item values (1, 'a')")
    shop.init()
    topic = f"{shop.name}.__signal"
    said = {"type": "execute-snapshot", "data": {"data-collections": ["public.item"]}}
    with shop.running("capture") as capture, Broker(shop.bootstrap) as broker:
        shop.captured(capture)
        wait_until(lambda: broker.partitions([topic]) == {topic: 1}, "capture to make the topic")
    producer = Producer({"bootstrap.servers": shop.bootstrap})
    for key, value in (("another", said), (shop.name, said), (shop.name, "nonsense")):
        producer.produce(topic, json.dumps(value), key)
    assert producer.flush(30) == 0
    for _ in range(2):
        with shop.running("capture") as capture:
            shop.captured(capture)
            assert complete(shop, answered(shop, f"{topic}[0]@1"))["rows"] == 1
            assert answered(shop, f"{topic}[0]@2").startswith("refused: the record is")
    with psycopg.connect(shop.dsn) as conn:
        assert conn.execute("select count(*) from headwater.signal").fetchone() == (2,)
    assert len(json.loads(shop.run("snapshot", "list", "--json").stdout)) == 2


def test_what_no_row_can_hold_is_refused_and_does_not_make_capture_deaf(shop: Deployment) -> None:
    shop.extra = BEATS + 'signals = ["source", "kafka"]\n'
    shop.execute("insert into item values (1, 'a')")
    shop.init()
    topic = f"{shop.name}.__signal"
    with shop.running("capture") as capture, Broker(shop.bootstrap) as broker:
        shop.captured(capture)
        wait_until(lambda: broker.partitions([topic]) == {topic: 1}, "capture to make the topic")
        producer = Producer({"bootstrap.servers": shop.bootstrap})
        absent = '{"data-collections": ["public.%s"]}'
        for value in (
            r'{"type": "a\u0000b"}',
            r'{"type": "a\ud800b"}',
            "[" * 100_000,
            r'{"type": "execute-snapshot", "data": %s}' % (absent % r"a\u0000b"),
            r'{"type": "execute-snapshot", "data": %s}' % (absent % r"a\ud800b"),
        ):
            producer.produce(topic, value, shop.name)
        assert producer.flush(30) == 0
        for offset in range(5):
            assert answered(shop, f"{topic}[0]@{offset}").startswith("refused: ")
        assert signal(shop, "last", "log", {"message": "still there"}) == "still there"
