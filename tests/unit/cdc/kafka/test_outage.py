"""A Kafka that acknowledges nothing is named in the log: once, and once when it is back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from cdc.capture import guard
from cdc.capture.confirmation import Flight
from cdc.capture.guard import Guard
from cdc.config import Config
from cdc.kafka import outage, producer
from cdc.kafka.outage import PATIENCE_S, Outage
from cdc.kafka.producer import Producer

BEGAN_S = 1_800_000_000.0
SINCE = "2027-01-15T08:00:00+00:00"


def test_an_outage_is_told_once_with_address_and_since_when_and_so_is_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = Outage("broker:9092")

    def look(sent: int, acknowledged: int, now: float) -> None:
        monkeypatch.setattr(outage, "time", lambda: BEGAN_S + now)
        kafka.look(sent, acknowledged, "1/1 brokers are down", now)

    with capture_logs() as told:
        look(5, 5, -100.0)  # nothing waits: idle is no outage
        look(6, 5, 0.0)
        look(6, 5, PATIENCE_S - 0.1)
        assert (told, kafka.since) == ([], "")
        for after in (0.0, 1.0, 60.0):
            look(7, 5, PATIENCE_S + after)
        assert kafka.since == SINCE
        look(7, 6, 65.0)
        assert kafka.since == ""
        look(7, 7, 66.0)
    assert told == [
        {
            "event": "kafka_waited_for",
            "log_level": "warning",
            "address": "broker:9092",
            "since": SINCE,
            "reason": "1/1 brokers are down",
        },
        {
            "event": "kafka_is_back",
            "log_level": "info",
            "address": "broker:9092",
            "away_s": 65.0,
        },
    ]


def test_a_kafka_that_acknowledges_slowly_is_not_away() -> None:
    kafka = Outage("broker:9092")
    with capture_logs() as told:
        for now in range(100):
            kafka.look(1000, now, "", now * (PATIENCE_S - 0.1))
    assert told == []


def test_a_producer_without_a_broker_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Callable[[Any, Any], None]] = []

    class Client:
        def produce(self, *arguments: Any) -> None:
            taken.append(arguments[4])

        def poll(self, _timeout_s: float) -> None:
            pass

    now = [0.0]
    monkeypatch.setattr(producer, "monotonic", lambda: now[0])
    kafka = Producer("127.0.0.1:1")
    monkeypatch.setattr(kafka, "_producer", Client())
    with capture_logs() as told:
        kafka.send({"t": [{"key": b"k", "value": b"v"}]}, 2, Flight(1, 1))
        for now[0] in (0.0, 1.0, PATIENCE_S, 2 * PATIENCE_S):
            kafka.poll()
        assert kafka.silent_since
        (delivered,) = taken
        delivered(None, None)
        kafka.poll()
        assert not kafka.silent_since
    assert [(one["event"], one["address"]) for one in told] == [
        ("kafka_waited_for", "127.0.0.1:1"),
        ("kafka_is_back", "127.0.0.1:1"),
    ]
    assert told[0]["reason"] == "no broker answers, and none refuses the connection"


@pytest.mark.parametrize(
    ("since", "said"), [("", "lets nothing wait"), (SINCE, f"acknowledges nothing since {SINCE}")]
)
def test_a_missing_heartbeat_says_whether_kafka_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, since: str, said: str
) -> None:
    config = Config.model_validate(
        {
            "source": {"name": "shop", "dsn": "host=none", "tables": ["public.*"]},
            "kafka": {"bootstrap_servers": "none:1"},
        }
    )
    watching = Guard(config, None)
    later = watching._began_s + 1000
    monkeypatch.setattr(guard, "time", lambda: later)
    with capture_logs() as told:
        watching.check(since)
    assert [(one["event"], one["kafka"]) for one in told] == [("heartbeat_overdue", said)]
