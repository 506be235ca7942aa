"""``headwater.emit`` on real servers: one event for each call that committed, in commit order."""

from __future__ import annotations

import json
import random
from functools import partial

import psycopg
import pytest

from cdc.kafka.broker import Broker, Record
from cdc.lsn import Position, parse_position
from cdc.topics import message_topic, outbox_topic, partition_for
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order
from tests.support.waiting import wait_until

TOPICS = '[capture]\nemit_topics = ["orders", "a_b", "taken", "t0", "t1", "t2", "t3"]\n'


@pytest.fixture
def shop(shop: Deployment) -> Deployment:
    shop.extra = TOPICS
    return shop


def emitted(shop: Deployment, topic: str) -> list[Record]:
    """Everything in an outbox topic, partition by partition."""
    name = outbox_topic(shop.name, topic)
    with Broker(shop.bootstrap) as broker:
        ends = broker.end_offsets([name])[name]
        return [r for p, end in sorted(ends.items()) for r in broker.read(name, p, 0, end)]


def published(shop: Deployment, id_: int) -> bool:
    return any(event.key == {"id": id_} for event in shop.events("item"))


def made_up(topic: str, key: str = "k") -> str:
    """An SQL string of what ``headwater.emit`` would write."""
    head = {"id": "i", "topic": topic, "key": key, "headers": None, "null": False}
    return f"e'{json.dumps(head)}\\n1'"


def position(record: Record) -> Position:
    value = dict(record.headers)["position"]
    assert value is not None
    return parse_position(value)


def test_an_event_is_its_payload_key_and_headers_as_given(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture, psycopg.connect(shop.dsn, autocommit=True) as conn:
        ids = [
            conn.execute(f"select headwater.emit({call})::text").fetchone()
            for call in (
                """'orders', 'ü', '{"a":  1}', '{"kind": "Paid"}'""",
                """'orders', 'ü', '{"a":  1}'::jsonb""",
                """'orders', 'ü', '{"a":  1}'::json""",
                r"""'orders', 'ü', '\x00ff0a'::bytea""",
                """'orders', 'ü', null""",
                """'orders', null, ''""",
            )
        ]
        shop.captured(capture)
    records = sorted(emitted(shop, "orders"), key=position)
    assert [record.value for record in records] == [
        b'{"a":  1}', b'{"a": 1}', b'{"a":  1}', b"\x00\xff\n", None, b"",
    ]  # fmt: skip
    assert [record.key for record in records] == ["ü".encode()] * 5 + [None]
    assert [r.partition for r in records] == [partition_for("ü".encode(), 2)] * 5 + [0]
    assert [dict(r.headers)["id"] for r in records] == [id_[0].encode() for id_ in ids if id_]
    assert dict(records[0].headers)["kind"] == b"Paid"


def test_an_event_is_published_if_and_when_its_transaction_commits(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "begin; select headwater.emit('orders', 'a', 'rolled back'); rollback",
            "begin; insert into item values (1, 'a'); select headwater.emit('orders', 'a', 'one');"
            " savepoint s; select headwater.emit('orders', 'a', 'undone'); rollback to s;"
            " insert into item values (2, 'b'); select headwater.emit('orders', 'a', 'two'); end",
        )
        shop.captured(capture)
    records = emitted(shop, "orders")
    assert [record.value for record in records] == [b"one", b"two"]
    rows = sorted(event.position for event in shop.events("item"))
    assert len({lsn for lsn, _ in rows} | {position(r).commit_lsn for r in records}) == 1
    ordinals = [rows[0][1], position(records[0]).ordinal, rows[1][1], position(records[1]).ordinal]
    assert ordinals == [1, 2, 3, 4]
    committed = {event.value["source"]["ts_ms"] for event in shop.events("item") if event.value}
    told = {int(dict(record.headers)["commit_ms"] or b"0") for record in records}
    assert told == committed
    assert min(record.timestamp_ms for record in records) >= max(told)


REFUSED = {
    "'a.b', 'k', '{}'": "headwater.emit: 'a.b' is no topic",
    "null, 'k', '{}'": "headwater.emit: NULL is no topic",
    "'', 'k', '{}'": "headwater.emit: '' is no topic",
    "repeat('a', 101), 'k', '{}'": "is no topic",
    "'orders', 'k', '{}', '[]'": "headers is no JSON object of strings",
    "'orders', 'k', '{}', 'null'": "headers is no JSON object of strings",
    "'orders', 'k', '{}', '{\"a\": 1}'": "headers is no JSON object of strings",
    "'orders', 'k', '{}', '{\"commit_ms\": \"1\"}'": "headers is no JSON object of strings",
    "'orders', 'k', '{}', '{\"position\": \"1\"}'": "headers is no JSON object of strings",
    "'a_b', 'k', '{}'": "headwater.emit: 'a_b' is the topic of a table",
    "'other', 'k', '{}'": "headwater.emit: 'other' is none of capture.emit_topics",
    "'orders', repeat('k', 32769), '{}'": "a key of 32769, headers of 0 and a payload of 2",
    "'orders', 'k', repeat('x', 16000001)": "a payload of 16000001 bytes",
    "'orders', 'k', '', jsonb_build_object('h', repeat('x', 32768))": "headers of 32777",
}


def test_what_cannot_be_an_event_fails_in_the_applications_transaction(shop: Deployment) -> None:
    shop.execute("create schema outbox", 'create table outbox."a.b" (id int primary key)')
    shop.init()
    for call, said in REFUSED.items():
        with pytest.raises((psycopg.DataError, psycopg.OperationalError), match=said) as caught:
            shop.execute(f"select headwater.emit({call})")
        assert caught.value.diag.message_hint, call


def test_a_role_may_emit_that_may_use_the_schema_and_no_other(shop: Deployment) -> None:
    shop.init()
    role = f"app_{shop.name}"
    as_role = f"set role {role}; select headwater.emit('orders', 'k', 'v')"
    shop.execute(f"create role {role}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema headwater"):
        shop.execute(as_role)
    shop.execute(f"grant usage on schema headwater to {role}")
    with shop.running("capture") as capture:
        shop.execute(as_role)
        shop.captured(capture)
    shop.execute(f"revoke usage on schema headwater from {role}", f"drop role {role}")
    assert [record.value for record in emitted(shop, "orders")] == [b"v"]
    shop.extra = ""
    refused = shop.run("init")
    assert refused.returncode == 1
    assert "emitted to orders, which capture.emit_topics does not name" in refused.stderr
    _, found = shop.check()
    assert "emit topics" in [one["check"] for one in found["error"]]
    shop.execute("select headwater.emit('orders', 'k', 'v')")


def test_init_takes_up_what_the_configuration_names(shop: Deployment) -> None:
    shop.init()
    shop.extra = '[capture]\nemit_topics = ["later"]'
    _, found = shop.check()
    (warning,) = [one for one in found["warning"] if one["check"] == "emit topics"]
    assert (warning["hint"], "later, orders" in warning["message"]) == (
        "Run `headwater init`.",
        True,
    )
    done = shop.run("init")
    assert done.returncode == 0
    assert "headwater.emit accepts later" in done.stderr
    shop.execute("select headwater.emit('later', 'k', 'v')")
    with pytest.raises(psycopg.DataError, match="'orders' is none of"):
        shop.execute("select headwater.emit('orders', 'k', 'v')")


def test_messages_that_emit_did_not_write_do_not_stop_capture(shop: Deployment) -> None:
    shop.tables = ("public.*", "outbox.*")
    shop.execute("create schema outbox", "create table outbox.taken (id int primary key)")
    shop.init()
    garbage = "'garbage'", "'\\xff00'::bytea"
    unknown = (made_up(topic) for topic in ("taken", "any"))
    emitted_as = "select pg_logical_emit_message(true, 'headwater.outbox', {})"
    ddl = dict.fromkeys(("tag", "oid", "schema", "renamed", "columns")) | {"table": "t" * 900_000}
    with shop.running("capture") as capture:
        shop.execute(
            *map(emitted_as.format, (*garbage, *unknown)),
            "select pg_logical_emit_message(false, 'headwater.outbox', 'garbage')",
            "select pg_logical_emit_message(true, repeat('p', 600000), 'x')",
            f"select pg_logical_emit_message(true, 'headwater.ddl', e'guess\\n{json.dumps(ddl)}')",
            emitted_as.format(made_up("orders", "k" * 1_100_000)),
            "select pg_logical_emit_message(true, 'p', repeat('x', 20000000))",
            "insert into outbox.taken values (1)",
            "select headwater.emit('orders', 'k', 'v')",
            emitted_as.format(made_up("orders")),  # docs/events.md, "Trust"
        )
        shop.captured(capture)
    values = [event.value for event in shop.topic(message_topic(shop.name))]
    in_order = sorted((v for v in values if v), key=lambda value: value["source"]["commit_lsn"])
    messages = [value["message"] for value in in_order]
    assert [message["prefix"] for message in messages] == ["headwater.outbox"] * 5 + ["p"]
    assert messages[-1]["omitted"]["bytes"] == 20_000_000
    for said in ("headwater.emit did not write it", "none of capture.emit_topics"):
        assert said in shop.log("capture")
    letters = json.loads(shop.run("dead-letters", "list", "--json").stdout)
    assert [letter["of"].removeprefix(shop.name) for letter in letters] == [
        ".message", ".message", ".outbox.orders",
    ]  # fmt: skip
    (whole,) = [letter for letter in letters if letter["of"].endswith("orders")]
    assert whole["key"] == "k" * 1_100_000
    assert [record.value for record in emitted(shop, "orders")] == [b"v", b"1"]
    assert len(shop.events("taken", "outbox")) == 1


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_capture_killed_again_and_again_publishes_every_event_once(
    shop: Deployment, seed: int
) -> None:
    rng, sent = random.Random(seed), 0
    shop.extra = f"{TOPICS}progress_ms = {rng.choice((200, 600_000))}"
    shop.init()
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        for turn in range(4):
            with shop.running("capture") as capture:
                for _ in range(rng.randint(20, 60)):
                    with conn.transaction():
                        for _ in range(rng.choice((1, 2, 50))):
                            sent += 1
                            topic = f"t{rng.randint(0, turn)}"
                            key = rng.choice(("a", "b", "c", None))
                            payload = None if rng.random() < 0.2 else str(sent)
                            conn.execute(
                                "select headwater.emit(%s, %s, %s::text, %s)",
                                [topic, key, payload, f'{{"n": "{sent}"}}'],
                            )
                            conn.execute("insert into item values (%s)", [sent])
                if rng.random() < 0.5:
                    wait_until(partial(published, shop, sent), "the last row to be published")
                capture.kill()
    shop.extra = f"{TOPICS}progress_ms = 200"  # or it would be minutes until a mark says it all
    with shop.running("capture") as capture:
        shop.captured(capture)
    records = [record for turn in range(4) for record in emitted(shop, f"t{turn}")]
    numbers = [int(dict(record.headers)["n"] or b"0") for record in records]
    assert sorted(numbers) == list(range(1, sent + 1)), f"seed {seed}"
    in_order = [number for _, number in sorted(zip(map(position, records), numbers, strict=True))]
    assert in_order == sorted(numbers), f"seed {seed}"
    rows = {event.key["id"]: event.position for event in shop.events("item") if event.key}
    for number, record in zip(numbers, records, strict=True):
        lsn, ordinal = rows[number]
        assert position(record) == (lsn, ordinal - 1), f"seed {seed}"
    assert_exactly_once_in_order(shop.events("item"))
