"""What is done to capture, to its servers and to its connections, and when a table joins."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.chaos.faults.table_add import Joining
from tests.chaos.servers.environment import Setting, connect
from tests.chaos.servers.service import Service
from tests.chaos.views.whole_path import WholePath
from tests.chaos.workload.clients import Control

TABLE_JOINS: Final = "table joins"


class Target(NamedTuple):
    """What faults are done to."""

    setting: Setting
    dsn: str
    slot: str
    capture: Service
    control: Control
    away: threading.Event
    """Set while Kafka is killed or has just come back: nothing is compared with it then."""
    eras: Counter[str]
    """Starts of the servers."""
    joining: Joining
    whole: WholePath | None


def _capture_killed(target: Target, _lasts_s: float) -> None:
    target.capture.kill()
    target.capture.start()


def _capture_killed_twice(target: Target, lasts_s: float) -> None:
    """Again while it takes up what the first one left."""
    _capture_killed(target, 0)
    target.capture.pause(0.4 + lasts_s / 3)
    _capture_killed(target, 0)


def _capture_stopped(target: Target, _lasts_s: float) -> None:
    target.capture.stop()
    target.capture.start()


def _capture_frozen(target: Target, lasts_s: float) -> None:
    target.capture.signal(signal.SIGSTOP)
    threading.Event().wait(lasts_s)
    target.capture.signal(signal.SIGCONT)


def _broker_killed(target: Target, _lasts_s: float) -> None:
    target.away.set()
    target.setting.kill("kafka")
    target.capture.pause(0.3)
    target.setting.restart("kafka")
    target.eras["kafka"] += 1
    target.away.clear()


def _server_killed(target: Target, lasts_s: float) -> None:
    target.setting.kill("postgres")
    target.capture.pause(min(lasts_s, 1.0))
    target.eras["postgres"] += 1
    target.setting.restart("postgres")


def _sender_ended(target: Target, _lasts_s: float) -> None:
    query = (
        "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s"
        " and active_pid is not null"
    )
    with connect(target.dsn) as conn:
        conn.execute(query, (target.slot,))


def _source_cut(target: Target, _lasts_s: float) -> None:
    target.setting.postgres.cut()


def _broker_cut(target: Target, _lasts_s: float) -> None:
    target.setting.kafka.cut()


def _source_stalled(target: Target, lasts_s: float) -> None:
    target.setting.postgres.stall()
    _later(lasts_s, target.setting.postgres.release)


def _broker_stalled(target: Target, lasts_s: float) -> None:
    target.setting.kafka.stall()
    _later(lasts_s, target.setting.kafka.release)


def _broker_stalled_then_cut(target: Target, lasts_s: float) -> None:
    """What was sent arrives or not, and no answer comes back."""
    proxy = target.setting.kafka
    proxy.stall()
    target.capture.pause(lasts_s / 2)
    proxy.cut()
    proxy.release()


def _broker_stalled_and_capture_killed(target: Target, lasts_s: float) -> None:
    """Partitions are left at different transactions."""
    proxy = target.setting.kafka
    proxy.stall()
    target.capture.pause(lasts_s / 3)
    target.capture.kill()
    proxy.cut()
    proxy.release()
    target.capture.start()


def _source_slow(target: Target, lasts_s: float) -> None:
    target.setting.postgres.slow(0.02)
    _later(lasts_s, target.setting.postgres.release)


def _broker_slow(target: Target, lasts_s: float) -> None:
    target.setting.kafka.slow(0.02)
    _later(lasts_s, target.setting.kafka.release)


def _queue_filled(target: Target, lasts_s: float) -> None:
    """A large transaction meets a broker that takes nothing."""
    target.setting.kafka.stall()
    target.control.flood.set()
    _later(1.0 + lasts_s, target.setting.kafka.release)


def _large_and_killed(target: Target, lasts_s: float) -> None:
    """Capture dies in the middle of a large transaction."""
    target.control.flood.set()
    target.capture.pause(0.3 + lasts_s / 5)
    _capture_killed(target, 0)


def _table_joins(target: Target, _lasts_s: float) -> None:
    """It goes on while what comes next is done."""
    target.joining.begin()


def _later(seconds: float, do: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()


FAULTS: Final[dict[str, Callable[[Target, float], None]]] = {
    "capture killed": _capture_killed,
    "capture killed twice": _capture_killed_twice,
    "capture killed in a large transaction": _large_and_killed,
    "capture killed while the broker stalls": _broker_stalled_and_capture_killed,
    "capture stopped": _capture_stopped,
    "capture frozen": _capture_frozen,
    "broker killed": _broker_killed,
    "broker cut": _broker_cut,
    "broker stalled": _broker_stalled,
    "broker stalled, then cut": _broker_stalled_then_cut,
    "broker slow": _broker_slow,
    "queue filled": _queue_filled,
    "server killed": _server_killed,
    "sender ended": _sender_ended,
    "source cut": _source_cut,
    "source stalled": _source_stalled,
    "source slow": _source_slow,
    TABLE_JOINS: _table_joins,
}
