"""From COMMIT to a reader of a view, at a steady rate of small transactions, store by store.

What people run today, a plain MERGE, is measured in the same way over the same topics.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from benchmarks.capture.latency import percentile, waits_ms
from benchmarks.capture.process import capturing, slot_of, topic_of
from benchmarks.capture.shapes import CUSTOMERS, STRIDE, orders_of
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import Setting, create_table, drop_table, init_source, load, settle
from benchmarks.peers.spark_merge_process import await_merged, merging, plain_table
from benchmarks.traffic import Traffic, traffic
from benchmarks.views.probes import InDelta, Look, Watcher, in_opensearch, in_redis, watching
from benchmarks.views.process import (
    Declared,
    applying,
    await_applied,
    declare,
    lake,
    open_stores,
    records_in,
)
from cdc.errors import FatalError
from stack.child_process import Process, tail
from stack.servers import Endpoints

RATE_PER_S: Final = 200
SECONDS: Final = 20
WARM_UP_S: Final = 90
"""Not counted: a JVM compiles what it does again and again, at this rate for minutes."""
ORDERS: Final = 100_000
_SOURCE: Final = "seen"
_ORDERS, _CUSTOMERS = _TABLES = "seen_orders", "seen_customers"
_JOINED: Final = (
    f"select o.id, o.total, o.status, o.note, c.name, c.credit from {_ORDERS} o"
    f" join {_CUSTOMERS} c on c.id = o.customer_id"
)
_CUSTOMER_EVERY: Final = 10
_TURN: Final = 1_000_000
"""Marks of a turn begin at its number times that: above all that was there before."""
_ARRIVE_S: Final = 120.0
_POLL_S: Final = 0.05


class Turn(NamedTuple):
    """One view, or what stands for it: ``columns`` are those that show marks."""

    name: str
    topics: list[str]
    columns: tuple[str, ...]
    number: int

    @property
    def first(self) -> int:
        """The mark before the first."""
        return self.number * _TURN


class Waits(NamedTuple):
    """``waits_ms`` of a turn, and the time between two looks."""

    ms: list[float]
    rate_per_s: float
    look_ms: float


def measure_visible(setting: Setting) -> dict[str, float]:
    """p50 and p99 in ms of each kind of view, over all changes after the warm-up."""
    stores = open_stores(setting)
    orders = setting.scaled(ORDERS, 10_000)
    figures: dict[str, float] = {}
    measured: list[Waits] = []
    with setting.connect() as conn:
        shapes = (orders_of(orders // _CUSTOMER_EVERY), CUSTOMERS)
        for table, shape, rows in zip(_TABLES, shapes, _sizes(orders), strict=True):
            create_table(conn, shape, table)
            load(setting, conn, shape, table, rows, rows)
            settle(conn, table)
        init_source(setting, _SOURCE, "seen_*")
        declare(setting, _SOURCE, stores, list(_views()))
        with capturing(setting, _SOURCE):
            for turn in _turns():
                found = _measured(setting, turn, stores, orders)
                measured.append(found)
                figures[f"visible_{turn.name}_p50_ms"] = percentile(found.ms, 50)
                figures[f"visible_{turn.name}_p99_ms"] = percentile(found.ms, 99)
        drop_slot(conn, slot_of(_SOURCE))
        for table in _TABLES:
            drop_table(conn, table)
    plain = [figures.pop(f"visible_plain_{of}_ms") for of in ("p50", "p99")]
    ours = [figures[f"visible_delta_{of}_ms"] for of in ("p50", "p99")]
    figures |= {"plain_merge_visible_p50_ms": plain[0], "plain_merge_visible_p99_ms": plain[1]}
    worst = max(mine / theirs for mine, theirs in zip(ours, plain, strict=True))
    return {
        **figures,
        "latency_vs_plain_merge": worst,
        "visible_rate_per_s": min(one.rate_per_s for one in measured),
        "visible_look_ms": max(one.look_ms for one in measured),
    }


def _sizes(orders: int) -> tuple[int, int]:
    return orders, orders // _CUSTOMER_EVERY


def _views() -> Iterator[Declared]:
    for store in ("redis", "opensearch", "delta"):
        yield Declared(f"seen_in_{store}", store, f"select * from {_ORDERS}")
    yield Declared("seen_join", "opensearch", _JOINED)


def _turns() -> list[Turn]:
    orders, customers = (topic_of(_SOURCE, table) for table in _TABLES)
    single = [(name, [orders], ("total",)) for name in ("redis", "opensearch", "delta", "plain")]
    all_of_them = [*single, ("join", [orders, customers], ("total", "credit"))]
    return [Turn(*of, number) for number, of in enumerate(all_of_them, 1)]


def _measured(setting: Setting, turn: Turn, stores: Endpoints, orders: int) -> Waits:
    """``waits_ms`` of one turn, once what was there before has been applied."""
    seconds = setting.scaled(SECONDS, 2) + setting.scaled(WARM_UP_S, 3)
    count, left_out = RATE_PER_S * seconds, RATE_PER_S * setting.scaled(WARM_UP_S, 3)
    marks = range(turn.first + 1, turn.first + count + 1)
    with _kept(setting, turn) as process:
        look, pause_s = _look(setting, turn, stores, orders)
        with (
            watching(look, marks, pause_s) as watcher,
            traffic(setting, turn.name, statements(turn, orders), RATE_PER_S, seconds) as commits,
        ):
            _follow(setting, process, watcher, commits, count)
            committed = {turn.first + n: at for n, at in commits.commits().items()}
    return Waits(*waits_ms(committed, watcher.seen, left_out), watcher.look_ms)


@contextmanager
def _kept(setting: Setting, turn: Turn) -> Iterator[Process]:
    """The view is kept, and has caught up."""
    if turn.name == "plain":
        with merging(setting, turn.topics[0], plain_table(setting, _SOURCE)) as process:
            await_merged(setting, process, records_in(setting, turn.topics[0]))
            yield process
        return
    view = "seen_join" if turn.name == "join" else f"seen_in_{turn.name}"
    with applying(setting, _SOURCE, view) as process:
        await_applied(setting, process, turn.topics)
        yield process


def _look(setting: Setting, turn: Turn, stores: Endpoints, orders: int) -> tuple[Look, float]:
    """How the store is read, and the pause between two looks in s."""
    if turn.name == "redis":
        return in_redis(
            stores.redis_url, "seen_in_redis", "total", lambda mark: row_of(mark, orders)
        ), 0.005
    if turn.name in ("opensearch", "join"):
        view = "seen_join" if turn.name == "join" else "seen_in_opensearch"
        return in_opensearch(stores.opensearch_url, view, turn.columns), 0.02
    ours, theirs = lake(setting) / "seen_in_delta", plain_table(setting, _SOURCE)
    return InDelta(theirs if turn.name == "plain" else ours, "total"), 0.005


def row_of(mark: int, rows: int) -> int:
    """The row that a change writes its mark to: another one for each change of a turn."""
    return 1 + mark % _TURN * STRIDE % rows


def statements(turn: Turn, orders: int) -> list[str]:
    """Updates of an order each; for a join every tenth is of a customer, who has ten orders."""
    update = [_update(_ORDERS, "total", turn.first, orders)]
    if len(turn.topics) == 1:
        return update
    customer = _update(_CUSTOMERS, "credit", turn.first, orders // _CUSTOMER_EVERY, _CUSTOMER_EVERY)
    return [*update * (_CUSTOMER_EVERY - 1), customer]


def _update(table: str, column: str, first: int, rows: int, every: int = 1) -> str:
    number = "%(first)s::bigint"
    row = f"1 + mod({number} / {every} * {STRIDE}, {rows})"
    return f"update public.{table} set {column} = {first} + {number} where id = {row}"


def _follow(
    setting: Setting, process: Process, watcher: Watcher, commits: Traffic, total: int
) -> None:
    """Until every change was seen; ``FatalError`` when one is missing long after its commit."""
    ended: float | None = None
    while len(watcher.seen) < total:
        process.check()
        watcher.check()
        commits.check()
        setting.watch(f"{process.name}: changes on their way", len(watcher.seen) / total)
        if not commits.runs:
            ended = ended or time.monotonic()
            if time.monotonic() - ended > _ARRIVE_S:
                said = f"{len(watcher.seen)} of {total} changes can be read"
                raise FatalError(f"{process.name}: {said}\n{tail(process.log)}")
        time.sleep(_POLL_S)
