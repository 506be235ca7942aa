"""Records that are too large for Kafka, on real servers."""

from __future__ import annotations

import json
import random

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource

from cdc.events.capture_dead_letters import whole
from cdc.kafka.broker import Broker
from cdc.topics import dead_letters_topic, table_topic
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order, fold
from tests.support.waiting import wait_until

BIG = "".join(random.Random(1).choices("abcdefghij", k=2_500_000))
PIECES = 3
"""Of such a record."""
TURNS, EACH = 3, 2
"""Of kills, and of records in each: every one is captured again after each kill."""
DEAD_LETTER = '[capture]\noversized = "dead_letter"'


@pytest.fixture
def shop(shop: Deployment) -> Deployment:
    shop.init()
    return shop


def test_by_default_capture_stops_and_goes_on_when_it_fits(shop: Deployment) -> None:
    assert "no dead letters" in shop.run("dead-letters", "list").stderr
    with shop.running("capture") as capture:
        shop.execute(
            f"insert into item values (1, '{BIG}')", "insert into item values (2, 'small')"
        )
        assert capture.wait(120) == 1
    assert "is larger than message.max.bytes" in shop.log("capture")
    assert "capture.oversized" in shop.log("capture")
    assert "Traceback" not in shop.log("capture")
    shop.extra = DEAD_LETTER
    with shop.running("capture") as capture:
        shop.captured(capture)
    assert list(fold(shop.events("item"))) == ['{"id": 2}']


def test_a_dead_letter_is_whole_and_later_events_of_its_key_flow(shop: Deployment) -> None:
    shop.extra = f'{DEAD_LETTER}\nemit_topics = ["orders"]'
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            f"insert into item values (1, '{BIG}')",
            "update item set name = 'small'",
            f"select headwater.emit('orders', 'k', '{BIG}', '{{\"kind\": \"Paid\"}}')",
        )
        shop.captured(capture)
    assert shop.log("capture").count("record_too_large") == 2
    assert fold(shop.events("item"))['{"id": 1}']["name"] == "small"
    assert_exactly_once_in_order(shop.events("item"))
    listed = json.loads(shop.run("dead-letters", "list", "--json").stdout)
    item, orders = listed
    assert (item["of"], item["key"]) == (table_topic(shop.name, "public", "item"), '{"id":1}')
    shown = shop.run("dead-letters", "show", item["id"])
    assert json.loads(shown.stdout)["after"] == {"id": 1, "name": BIG}
    assert "key id=1" in " ".join(shown.stderr.split())
    as_json = json.loads(shop.run("dead-letters", "show", item["id"], "--json").stdout)
    assert as_json["value"]["after"] == {"id": 1, "name": BIG}
    assert shop.run("dead-letters", "show", orders["id"]).stdout == BIG
    assert item["id"] in shop.run("dead-letters", "list").stdout
    assert shop.run("dead-letters", "show", "0" * 24).returncode == 1


def test_capture_killed_again_and_again_writes_each_dead_letter_once(shop: Deployment) -> None:
    shop.extra = f"{DEAD_LETTER}\nprogress_ms = 600000"
    topic = dead_letters_topic(shop.name)

    def pieces() -> int:
        with Broker(shop.bootstrap) as broker:
            exists = topic in broker.partitions([topic])
            return broker.end_offsets([topic])[topic][0] if exists else 0

    for turn in range(TURNS):
        with shop.running("capture") as capture:
            for id_ in range(turn * EACH, (turn + 1) * EACH):
                shop.execute(
                    f"insert into item values ({id_}, '{BIG}')",
                    f"update item set name = '{id_}' where id = {id_}",
                )
            wait_until(lambda: pieces() > turn * EACH * PIECES, "a piece")  # noqa: B023
            capture.kill()
    shop.extra = DEAD_LETTER
    with shop.running("capture") as capture:
        shop.captured(capture)
    with Broker(shop.bootstrap) as broker:
        letters = list(whole(broker.read(topic, 0, 0, pieces())))
    written = [json.loads(letter.value)["after"]["id"] for letter in letters]
    assert written == list(range(TURNS * EACH))
    assert all(letter.missing == 0 for letter in letters)
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert len(events) == TURNS * EACH


def test_a_topic_that_takes_less_stops_capture_with_the_setting_to_raise(shop: Deployment) -> None:
    topic = table_topic(shop.name, "public", "item")
    admin = KafkaAdminClient(bootstrap_servers=shop.bootstrap)
    admin.alter_configs([ConfigResource("topic", topic, {"max.message.bytes": "20000"})])
    admin.close()
    noise = "".join(random.Random(2).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=100_000))
    with shop.running("capture") as capture:
        shop.execute(f"insert into item values (1, '{noise}')")
        assert capture.wait(120) == 1
    assert "aise max.message.bytes of the topic" in shop.log("capture")
    assert "Traceback" not in shop.log("capture")
