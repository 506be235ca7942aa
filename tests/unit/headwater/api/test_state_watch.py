"""Which alarms `headwater serve` sends to a webhook: those of alerts on rows, and no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdc.alarms.judge import Judge
from cdc.config import Config
from cdc.lag.report import Assessor
from cdc.lag.states import State
from headwater.api import state_watch
from headwater.api.state_watch import Look, Watching
from headwater.lag.alert_lags import AlertReport
from headwater.lag.watch import Seen
from tests.unit.cdc.lag.test_report import lag, partition

ROWS = {"big": {"table": "public.t", "when": "op = 'd'", "webhook": "http://hooks.example/"}}


def config(webhook: str, rows: dict[str, Any]) -> Config:
    alerts = {"secret_file": "secret", "rows": rows, **({"webhook": webhook} if webhook else {})}
    return Config.model_validate(
        {
            "source": {"name": "shop", "dsn": "x", "tables": ["public.*"]},
            "kafka": {"bootstrap_servers": "none:1"},
            "alerts": alerts,
        }
    )


class Sending:
    """In place of the thread that sends."""

    made: list[Sending]

    def __init__(self, url: str, secret_file: str, process: str, samples: Any) -> None:
        self.of, self.samples, self.calls = (url, secret_file, process), samples, list[str]()
        self.made.append(self)

    def start(self) -> None:
        self.calls.append("start")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> type[Sending]:
    Sending.made = []
    thread = SimpleNamespace(start=int, end=int, close=int, look=int, fresh=None, found=())
    for name in ("LagWatch", "Observer", "SnapshotWatch"):
        monkeypatch.setattr(state_watch, name, lambda *_, **__: thread)
    monkeypatch.setattr(state_watch, "Webhook", Sending)
    return Sending


def test_a_server_tells_of_alerts_on_rows_and_of_nothing_that_others_tell(
    sending: type[Sending],
) -> None:
    watching = Watching(config("https://alarms.example/x", ROWS))
    watching.start()
    (one,) = sending.made
    assert one.of == ("https://alarms.example/x", "secret", "serve")
    assert list(one.samples()) == [], "nothing was looked at yet"
    late = AlertReport("big", "public.t", State.STALLED, lag_s=400.0, undelivered_s=400.0)
    stalled = partition(0, 4, 9, behind_s=900.0, in_kafka_s=900.0, moved_s=1.0)
    seen = Seen(Assessor(10.0).report(lag(stalled)), {}, {}, alerts=(late,))
    found: Any = SimpleNamespace(found=Look(seen, None))  # type: ignore[arg-type]
    watching._observer.fresh = found  # type: ignore[misc]
    told = Judge(0.0).look(1_000.0, one.samples())
    assert [(held.alarm.code, dict(held.labels)) for held in told] == [
        ("HW018", {"source": "shop", "alert": "big"})
    ]
    watching.end()
    assert one.calls == ["start", "close"]


@pytest.mark.parametrize(("webhook", "rows"), [("", ROWS), ("https://alarms.example/x", {})])
def test_without_alerts_or_a_receiver_of_alarms_it_sends_none(
    sending: type[Sending], webhook: str, rows: dict[str, Any]
) -> None:
    watching = Watching(config(webhook, rows))
    watching.start()
    watching.end()
    assert sending.made == []
