"""From COMMIT to a Kafka consumer, at a steady rate of small transactions; ours and Debezium's."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.capture.consumer import Reader, reading
from benchmarks.capture.process import capturing, slot_of, topic_of
from benchmarks.capture.shapes import USUAL
from benchmarks.capture.slots import create_slot, drop_slot
from benchmarks.environment import Setting, create_table, init_source
from benchmarks.peers.debezium import QUICK, streaming, warm_worker
from benchmarks.traffic import Traffic, inserts, traffic
from cdc.errors import FatalError
from cdc.source.errors import translated

RATE_PER_S: Final = 1_000
SECONDS: Final = 20
WARM_UP_S: Final = 3
"""Not counted: connections open, the broker's JVM compiles."""
_ARRIVE_S: Final = 30.0
_POLL_S: Final = 0.05


def measure_latency(setting: Setting) -> dict[str, float]:
    """p50 and p99 in ms, over all transactions after the warm-up; capture, then Debezium."""
    table = "orders_live"
    with setting.connect() as conn:
        create_table(conn, USUAL, table)
        init_source(setting, "live", table, "--no-snapshot")
        # Its backlog warms the broker up as well, so the first to be measured has no cold one.
        with warm_worker(setting, conn) as worker:
            with capturing(setting, "live"):
                ours, rate = waits(setting, table, topic_of("live", table), "capture")
            with translated("emptying the table"):
                conn.execute(f"truncate public.{table}".encode())
            create_slot(conn, "dbz_live")
            publication = slot_of("live")
            with streaming(setting, conn, worker, "dbz_live", publication, table, QUICK):
                theirs, _ = waits(setting, table, topic_of("dbz_live", table), "Debezium")
            drop_slot(conn, "dbz_live")
        drop_slot(conn, slot_of("live"))
    return {
        "commit_to_kafka_p50_ms": percentile(ours, 50),
        "commit_to_kafka_p99_ms": percentile(ours, 99),
        "commit_rate_per_s": rate,
        "debezium_commit_to_kafka_p50_ms": percentile(theirs, 50),
        "debezium_commit_to_kafka_p99_ms": percentile(theirs, 99),
    }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def waits_ms(
    committed: Mapping[int, int], seen: Mapping[int, int], left_out: int
) -> tuple[list[float], float]:
    """How long each row took in ms, shortest first, and the rate at which they were committed.

    Both by id, in monotonic ns; the first ``left_out`` rows do not count.
    """
    counted = sorted(committed)[left_out:]
    span_s = (committed[counted[-1]] - committed[counted[0]]) / 1e9
    waits = sorted((seen[row] - committed[row]) / 1e6 for row in counted)
    return waits, (len(counted) - 1) / span_s


def waits(setting: Setting, table: str, topic: str, who: str) -> tuple[list[float], float]:
    """``waits_ms`` of ``RATE_PER_S`` transactions for ``SECONDS``, while something publishes them.

    ``FatalError`` when one does not come to Kafka.
    """
    seconds = setting.scaled(SECONDS, 2) + WARM_UP_S
    with (
        reading(setting.bootstrap, topic) as reader,
        traffic(setting, table, inserts(table), RATE_PER_S, seconds) as commits,
    ):
        _follow(setting, reader, commits, RATE_PER_S * seconds, who)
        return waits_ms(commits.commits(), reader.seen, RATE_PER_S * WARM_UP_S)


def _follow(setting: Setting, reader: Reader, commits: Traffic, total: int, who: str) -> None:
    """Until every row was read; ``FatalError`` when one is missing long after its commit."""
    ended: float | None = None
    while len(reader.seen) < total:
        reader.check()
        commits.check()
        setting.watch(f"{who}: commits on their way", len(reader.seen) / total)
        if not commits.runs:
            ended = ended or time.monotonic()
            if time.monotonic() - ended > _ARRIVE_S:
                raise FatalError(f"{who}: {len(reader.seen)} of {total} commits came to Kafka")
        time.sleep(_POLL_S)
