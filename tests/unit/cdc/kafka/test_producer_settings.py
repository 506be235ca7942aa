"""Settings of ``[kafka.producer]`` that cannot work: each is one fault with its way out, found
without a broker."""

from __future__ import annotations

import pytest

from cdc.errors import UsageError
from cdc.kafka.client import open_client, setting_faults, settings_without_effect
from cdc.kafka.producer_settings import FIXED, Settings

ORDER = "Remove the setting: exactly-once order depends on it."


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"linger.mss": 5}, "librdkafka has no setting linger.mss. Did you mean linger.ms?"),
        ({"linger_ms": 5}, "librdkafka has no setting linger_ms. Did you mean linger.ms?"),
        (
            {"max.request.size": 5},
            "librdkafka has no setting max.request.size. Write message.max.bytes",
        ),
        ({"a.b": 5}, "librdkafka has no setting a.b. Correct it, or remove the setting"),
        (
            {"linger.ms": "soon"},
            "linger.ms = 'soon' is not a valid value. Correct it, or remove the s",
        ),
        ({"linger.ms": -5}, "linger.ms = -5 is out of range. Set 0 to 900000"),
        (
            {"compression.type": "zap"},
            "compression.type = 'zap' is not a valid value. Set none, gzip, snappy, lz4 or zstd",
        ),
        (
            {"socket.nagle.disable": "maybe"},
            "socket.nagle.disable = 'maybe' is neither true nor false. Set true or false",
        ),
        (
            {"message.max.bytes": "1MB"},
            "message.max.bytes = '1MB' is not a size in bytes. Write digits only, for example",
        ),
        ({"message.max.bytes": 1e6}, "message.max.bytes = 1000000.0 is not a size in bytes. Wr"),
        ({"acks": 1}, f"acks cannot be changed. {ORDER}"),
        ({"request.required.acks": 1}, f"request.required.acks cannot be changed. {ORDER}"),
        (
            {"transactional.id": "x"},
            "transactional.id cannot be changed. Remove the setting: the producer is",
        ),
        (
            {"bootstrap.servers": "b:1"},
            "bootstrap.servers cannot be changed. Set kafka.bootstrap_",
        ),
        (
            {"queue.buffering.max.kbytes": 5},
            "queue.buffering.max.kbytes cannot be changed. Set capture.queue_mb instead, which "
            "bounds what waits for Kafka",
        ),
        ({"stats_cb": "x"}, "stats_cb cannot be changed. Remove the setting: it takes code"),
        ({"logger": "x"}, "logger cannot be changed. Remove the setting: it takes code"),
        (
            {"delivery.report.only.error": True},
            "delivery.report.only.error cannot be changed. Remove the setting: each record's "
            "acknowledgement is awaited",
        ),
        (
            {"statistics.interval.ms": 0},
            "statistics.interval.ms = 0 hides partitions that are added from capture. Set 1",
        ),
        (
            {"max.in.flight": 10},
            "max.in.flight must be set <= 5 when enable.idempotence is true. Correct the settings, "
            "or remove them",
        ),
        (
            {"reconnect.backoff.ms": 5_000},
            "reconnect.backoff.max.ms must be >= reconnect.backoff.ms. Correct the settings, or "
            "remove them",
        ),
    ],
)
def test_a_setting_that_cannot_work_is_one_fault_with_its_way_out(
    settings: Settings, fault: str
) -> None:
    (found,) = setting_faults(settings)
    assert str(found).startswith(f"kafka.producer: {fault}")
    with pytest.raises(UsageError) as refused:
        open_client("127.0.0.1:1", settings, lambda _error: None)
    assert str(refused.value) == str(found)


@pytest.mark.parametrize("name", FIXED)
def test_what_order_rests_on_may_not_be_set_even_to_what_it_is(name: str) -> None:
    (found,) = setting_faults({name: FIXED[name]})
    assert found.message == f"kafka.producer: {name} cannot be changed"


def test_all_faults_are_told_at_once_and_what_is_right_is_not_among_them() -> None:
    settings: Settings = {"linger.mss": 5, "acks": 1, "linger.ms": 20, "batch.size": 0}
    assert [fault.message for fault in setting_faults(settings)] == [
        "kafka.producer: acks cannot be changed",
        "kafka.producer: librdkafka has no setting linger.mss",
        "kafka.producer: batch.size = 0 is out of range",
    ]


def test_settings_that_work_together_alone_are_no_fault() -> None:
    settings: Settings = {"reconnect.backoff.ms": 5_000, "reconnect.backoff.max.ms": 9_000}
    assert setting_faults(settings) == []
    assert settings_without_effect(settings) == []


def test_a_consumer_s_setting_is_without_effect() -> None:
    assert settings_without_effect({"auto.offset.reset": "earliest", "linger.ms": 3}) == [
        "auto.offset.reset"
    ]
