"""Metrics of `headwater serve`."""

from __future__ import annotations

from cdc.metrics.metric import Metric, of_source

STREAMS = of_source(
    "headwater_serve_streams",
    "Change streams that are open, and long polls that wait.",
    "At serve.max_streams others are answered with 503.",
)
STREAMS_REFUSED = of_source(
    "headwater_serve_streams_refused",
    "Change streams that were answered with 503 because serve.max_streams were open.",
    "Above 0: raise serve.max_streams, or start another server.",
    kind="counter",
)
STREAMS_CUT = Metric(
    "headwater_serve_streams_cut",
    "counter",
    "Change streams that the server has ended, by reason: slow, stopping, access or failed.",
    "slow: clients do not read fast enough. failed: the log names the cause.",
    ("source", "reason"),
)
EVENTS = of_source(
    "headwater_serve_events",
    "Events that were sent to clients, rows of snapshots among them.",
    "Throughput.",
    kind="counter",
)
