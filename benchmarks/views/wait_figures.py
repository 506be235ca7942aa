"""What is measured of reading one's own writes. Pure."""

from __future__ import annotations

from typing import Final

from benchmarks.report.figure import Figure, below

WAIT: Final = (
    Figure("wait_p50_ms", "after COMMIT, `headwater.Views.wait` for a view in Redis, p50", "ms", 1),
    Figure("wait_p99_ms", "the same, p99", "ms", 1),
    Figure("wait_http_p50_ms", "the same over HTTP, p50", "ms", 1),
    Figure("wait_http_p99_ms", "the same over HTTP, p99", "ms", 1),
    Figure("wait_http_over_p99_ms", "p99: over HTTP less the other's", "ms", 1, below(20)),
)
