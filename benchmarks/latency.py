"""From COMMIT to a Kafka consumer, at a steady rate of small transactions."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.capturing import capturing
from benchmarks.consumer import arrivals
from benchmarks.setting import Setting, create_table, init_source
from cdc.errors import FatalError
from cdc.topics import table_topic
from demo.processes import tail

RATE_PER_S: Final = 500
SECONDS: Final = 20
WARM_UP_S: Final = 3
"""Not counted: connections open, the broker's JVM compiles."""
_ARRIVE_S: Final = 30.0
_FIRST_ID: Final = 1


def measure_latency(setting: Setting) -> dict[str, float]:
    """p50 and p99 in ms, over all transactions after the warm-up."""
    table, source = "orders_live", "live"
    with setting.connect() as conn:
        create_table(conn, table)
    init_source(setting, source, table, "--no-snapshot")
    with capturing(setting, source):
        seen, committed = _run(setting, table, table_topic(source, "public", table))
    counted = sorted(committed)[RATE_PER_S * WARM_UP_S :]
    waits_ms = sorted((seen[row] - committed[row]) / 1e6 for row in counted)
    span_s = (committed[counted[-1]] - committed[counted[0]]) / 1e9
    return {
        "commit_to_kafka_p50_ms": percentile(waits_ms, 50),
        "commit_to_kafka_p99_ms": percentile(waits_ms, 99),
        "commit_rate_per_s": (len(counted) - 1) / span_s,
    }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _run(setting: Setting, table: str, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """When each row was read and when it was committed, in monotonic ns, by id."""
    total = RATE_PER_S * (SECONDS + WARM_UP_S)
    output, log = setting.home / "commits.txt", setting.log("traffic")
    seen: dict[int, int] = {}
    ended: float | None = None
    with output.open("wb") as commits, log.open("wb") as errors:
        child = subprocess.Popen(_traffic(setting, table), stdout=commits, stderr=errors)
        try:
            for arrival in arrivals(setting.bootstrap, topic):
                if arrival is not None:
                    row = json.loads(arrival[0])["id"]
                    if row in seen:
                        raise FatalError(f"{topic} holds the insert of row {row} twice")
                    seen[row] = arrival[1]
                if len(seen) % 100 == 0:
                    setting.watch("commits on their way", len(seen) / total)
                if len(seen) == total:
                    break
                if child.poll() and ended is None:
                    raise FatalError(f"traffic ended with {child.returncode}\n{tail(log)}")
                if arrival is None and child.poll() is not None:
                    ended = ended or time.monotonic()
                    if time.monotonic() - ended > _ARRIVE_S:
                        raise FatalError(f"{topic} got {len(seen)} of {total} commits")
            child.wait(_ARRIVE_S)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    committed = _commits(output)
    output.unlink()
    return seen, committed


def _traffic(setting: Setting, table: str) -> list[str]:
    numbers = (RATE_PER_S, SECONDS + WARM_UP_S, _FIRST_ID)
    module = [sys.executable, "-m", "benchmarks.traffic"]
    return [*module, setting.dsn, table, *(str(number) for number in numbers)]


def _commits(path: Path) -> dict[int, int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {int(row): int(at) for row, at in (line.split() for line in lines)}
