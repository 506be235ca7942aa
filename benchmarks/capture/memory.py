"""Capture's memory where others grow: in one huge transaction, and while Kafka is away."""

from __future__ import annotations

import time
from typing import Final

from benchmarks import process_usage
from benchmarks.capture.consumer import keys, opened
from benchmarks.capture.process import (
    Capturing,
    await_count,
    capturing,
    require_exactly,
    slot_of,
    topic_of,
)
from benchmarks.capture.shapes import USUAL
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import (
    Setting,
    create_table,
    drop_table,
    init_source,
    load,
    servers_home,
)
from benchmarks.traffic import Traffic, inserts, traffic
from stack import servers

LARGE_ROWS: Final = 5_000_000
OUTAGE_S: Final = 60
OUTAGE_RATE_PER_S: Final = 10
OUTAGE_TRANSACTION_ROWS: Final = 1_000
_AROUND_S: Final = 5
"""Traffic before Kafka goes and after it is back."""
_POLL_S: Final = 0.2


def measure_memory(setting: Setting) -> dict[str, float]:
    """Peak resident size in each case, and the larger."""
    large, outage = measure_large_transaction(setting), _kafka_down(setting)
    return {
        "capture_rss_mb": max(large, outage),
        "capture_large_transaction_rss_mb": large,
        "capture_kafka_down_rss_mb": outage,
    }


def measure_large_transaction(setting: Setting) -> float:
    """Peak resident size in MB when all of it has come to Kafka."""
    table, source = "orders_at_once", "at_once"
    rows = setting.scaled(LARGE_ROWS, 1_000)
    with setting.connect() as conn:
        create_table(conn, USUAL, table)
        init_source(setting, source, table, "--no-snapshot")
        setting.watch("inserting in one transaction", 0)
        load(setting, conn, USUAL, table, rows, rows)
        with opened(setting.bootstrap, topic_of(source, table)) as log:
            with capturing(setting, source) as run:
                await_count(
                    log,
                    rows,
                    run.process.check,
                    lambda part: setting.watch("one transaction", part / 2),
                )
                peak_mb = process_usage.peak_rss_mb(run.process.pid)
            require_exactly(log.count(), rows, run.process.name)
        drop_slot(conn, slot_of(source))
        drop_table(conn, table)
    return peak_mb


def _kafka_down(setting: Setting) -> float:
    """The broker is stopped and started again while rows are committed all the time."""
    table, source = "orders_meanwhile", "meanwhile"
    topic, away_s = topic_of(source, table), setting.scaled(OUTAGE_S, 3)
    seconds = away_s + 2 * _AROUND_S
    with setting.connect() as conn:
        create_table(conn, USUAL, table)
        init_source(setting, source, table, "--no-snapshot")
        with capturing(setting, source) as run:
            with traffic(
                setting,
                table,
                inserts(table),
                OUTAGE_RATE_PER_S,
                seconds,
                OUTAGE_TRANSACTION_ROWS,
            ) as commits:
                _take_kafka_away(setting, run, commits, topic, away_s)
                rows = len(commits.commits()) * OUTAGE_TRANSACTION_ROWS
            with opened(setting.bootstrap, topic) as log:
                await_count(
                    log,
                    rows,
                    run.process.check,
                    lambda part: setting.watch("catching up", 0.9 + part / 10),
                )
            peak_mb = process_usage.peak_rss_mb(run.process.pid)
        drop_slot(conn, slot_of(source))
    every = list(keys(setting.bootstrap, topic))
    require_exactly(len(every), rows, run.process.name)
    require_exactly(len(set(every)), rows, run.process.name)
    return peak_mb


def _take_kafka_away(
    setting: Setting, run: Capturing, commits: Traffic, topic: str, away_s: int
) -> None:
    home = servers_home(setting.home)
    with opened(setting.bootstrap, topic) as log:
        await_count(log, OUTAGE_TRANSACTION_ROWS, commits.check, lambda _part: None)
    servers.stop(home, ["kafka"])
    began = time.monotonic()
    while (away := time.monotonic() - began) < away_s:
        run.process.check()
        commits.check()
        setting.watch("Kafka is down", 0.5 + 0.4 * away / away_s)
        time.sleep(_POLL_S)
    servers.start(home, ["kafka"])
