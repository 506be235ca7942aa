"""Settings that ``headwater check`` tries, and those that fit no table or topic."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource

from cdc.topics import table_topic
from tests.support.commands.deployment import Deployment
from tests.support.waiting import wait_until


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute(
        "create table public.a (id int primary key)",
        "create table public.log (number int, at int)",
        "alter table public.log replica identity full",
    )
    return deployment


def found_by(name: str, shop: Deployment, level: str) -> list[str]:
    """What ``check`` says under a name, each with its way out."""
    _, found = shop.check()
    return [f"{f['message']}. {f['hint']}" for f in found[level] if f["check"] == name]


def test_settings_of_the_producer_that_cannot_work_are_errors_and_stop_init(
    shop: Deployment,
) -> None:
    shop.extra = '[kafka.producer]\n"linger.mss" = 5\nacks = 1\n"auto.offset.reset" = "earliest"'
    unknown = "kafka.producer: librdkafka has no setting linger.mss. Did you mean linger.ms?"
    fixed = (
        "kafka.producer: acks cannot be changed. Remove the setting: exactly-once "
        "order depends on it."
    )
    assert found_by("producer", shop, "error") == [fixed, unknown]
    done = shop.run("init")
    assert done.returncode == 1
    said = done.stderr.replace("\n  hint: ", ". ").splitlines()
    assert said == [f"error: {fixed}", f"error: {unknown}"]
    assert shop.records("a") == 0
    shop.extra = '[kafka.producer]\n"auto.offset.reset" = "earliest"'
    (ignored,) = found_by("producer", shop, "warning")
    assert "auto.offset.reset is a consumer setting" in ignored


def test_topics_that_take_less_than_the_producer_sends_are_named(shop: Deployment) -> None:
    assert found_by("record sizes", shop, "warning") == []
    shop.extra = '[kafka.producer]\n"message.max.bytes" = 20_000_000'
    (before,) = found_by("record sizes", shop, "warning")
    assert "records up to 16777216 bytes, the producer sends up to 20000000" in before
    shop.extra = '[kafka.topic]\n"max.message.bytes" = "20000000"\n' + shop.extra
    assert found_by("record sizes", shop, "warning") == []
    shop.extra = ""
    shop.init()
    topic = table_topic(shop.name, "public", "a")
    admin = KafkaAdminClient(bootstrap_servers=shop.bootstrap)
    admin.alter_configs([ConfigResource("topic", topic, {"max.message.bytes": "20000"})])
    admin.close()
    wait_until(lambda: found_by("record sizes", shop, "warning"), "the limit to be in effect")
    (after,) = found_by("record sizes", shop, "warning")
    assert after.startswith(f"topic {topic}: records up to 20000 bytes")
    assert f"--topic {topic} --add-config max.message.bytes=1000000" in after


def test_entries_of_keys_that_no_captured_table_uses_are_named_and_capture_goes_on(
    shop: Deployment,
) -> None:
    right = '"public.log" = ["number"]'
    shop.settings = f'keys = {{ {right}, "public.lgo" = ["number"], "public.a" = ["id"] }}\n'
    assert found_by("keys", shop, "error") == []
    warned = [
        "source.keys: no captured table is public.lgo. Add it to source.tables, or remove the "
        "entry.",
        "source.keys: the entry of public.a is not used: its key is id, of its primary key. Remove "
        "the entry.",
    ]
    assert found_by("keys", shop, "warning") == warned
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
    said = " ".join(shop.log("capture").split())
    assert "source.keys: no captured table is public.lgo" in said
    shop.settings = 'keys = { "public.lgo" = ["number"] }\n'
    assert found_by("keys", shop, "warning") == [
        "source.keys: no captured table is public.lgo. Did you mean public.log?"
    ]


def test_a_key_column_that_does_not_exist_is_one_error(shop: Deployment) -> None:
    shop.init()
    shop.settings = 'keys = { "public.log" = ["nubmer"] }\n'
    code, found = shop.check()
    assert code == 1
    assert [(f["check"], f["message"], f["hint"]) for f in found["error"]] == [
        ("keys", "source.keys: public.log has no column nubmer", "Did you mean number?")
    ]
