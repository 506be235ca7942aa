"""What is done to the deployment of a soak, one a minute."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from cdc.topics import slot_name
from stack.child_process import Process
from tests.chaos.servers.environment import Setting, connect
from tests.chaos.servers.state_database import Embedded
from tests.chaos.servers.stores import SERVED, Stores
from tests.support.servers.proxy import Proxy

AWAY_S: Final = 10.0
"""For so long a server that is killed or stalled is away."""


class Target(NamedTuple):
    """What faults are done to. ``dsn``: of the source, past its proxy."""

    name: str
    setting: Setting
    stores: Stores
    state: Embedded
    dsn: str
    capture: Process
    apply: Process


Fault = Callable[[Target], None]


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _killed(process: Process) -> None:
    process.kill()
    process.start()


def _killed_alone(process: Process) -> None:
    """As with ``kill -9 PID``: what it started finds out by itself."""
    os.kill(process.pid, signal.SIGKILL)
    process.start()


def _stopped(process: Process) -> None:
    process.ask_to_stop()
    process.stop()
    process.start()


def _both_killed(target: Target) -> None:
    target.capture.kill()
    target.apply.kill()
    target.capture.start()
    target.apply.start()


def _server_killed(name: str, target: Target) -> None:
    target.setting.kill(name)
    _pause(1.0)
    target.setting.restart(name)


def _sender_ended(target: Target) -> None:
    query = (
        "select pg_terminate_backend(active_pid) from pg_replication_slots"
        " where slot_name = %s and active_pid is not null"
    )
    with connect(target.dsn) as conn:
        conn.execute(query, (slot_name(target.name),))


def _store_away(store: str, target: Target) -> None:
    target.stores.kill(store)
    _pause(AWAY_S)
    target.stores.restart(store)


def _cut(proxy: Proxy) -> None:
    proxy.cut()


def _store_stalled(store: str, target: Target) -> None:
    _stalled(target.stores.proxies[store])


def _stalled(proxy: Proxy) -> None:
    """What was sent arrives or not, and no answer comes back."""
    proxy.stall()
    _pause(AWAY_S)
    proxy.cut()
    proxy.release()


RESTARTS: Final[Mapping[str, Fault]] = {
    "capture killed": lambda target: _killed(target.capture),
    "apply killed": lambda target: _killed(target.apply),
    "apply killed without its children": lambda target: _killed_alone(target.apply),
    "state database killed": lambda target: target.state.kill(0, _pause),
    "capture stopped": lambda target: _stopped(target.capture),
    "apply stopped": lambda target: _stopped(target.apply),
}
"""Their processes begin anew, and so does what they take of the machine."""
SURVIVED: Final[Mapping[str, Fault]] = {
    "broker killed": partial(_server_killed, "kafka"),
    "broker cut": lambda target: _cut(target.setting.kafka),
    "broker stalled": lambda target: _stalled(target.setting.kafka),
    "source killed": partial(_server_killed, "postgres"),
    "source cut": lambda target: _cut(target.setting.postgres),
    "source stalled": lambda target: _stalled(target.setting.postgres),
    "WAL sender ended": _sender_ended,
    **{f"{store} away": partial(_store_away, store) for store in SERVED},
    **{f"{store} stalled": partial(_store_stalled, store) for store in SERVED},
    "state database silent": lambda target: target.state.away(AWAY_S / 2, _pause),
}
"""Capture and apply go on."""
BOTH_KILLED: Final = "capture and apply killed"
FAULTS: Final[Mapping[str, Fault]] = {**RESTARTS, **SURVIVED, BOTH_KILLED: _both_killed}


def plan(minutes: int, seed: int) -> list[str]:
    """A fault for each minute. First those that begin a process anew, so that what is judged later
    is the growth of one process; at the end both are killed once more."""
    chance = random.Random(seed)
    found = list(RESTARTS)[: minutes // 2]
    while len(found) < minutes - 1:
        found += chance.sample(list(SURVIVED), len(SURVIVED))
    return [*found[: minutes - 1], BOTH_KILLED]
