"""Metrics of `headwater serve`."""

from __future__ import annotations

from cdc.lag.states import State
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
_ALERT = ("source", "alert")
ROW_ALERT_RUNNING = Metric(
    "headwater_row_alert_running",
    "gauge",
    "1 while an alert on rows reads in this process: its topic, as a member of its group, or the "
    "changes of its view, which one process at a time reads.",
    "0 in all: it waits for a server, or an error has stopped it; the log names it.",
    _ALERT,
)
ROW_ALERT_SENT = Metric(
    "headwater_row_alert_sent",
    "counter",
    "Messages about rows that a webhook took from this process.",
    "Throughput.",
    _ALERT,
)
ROW_ALERT_FAILED = Metric(
    "headwater_row_alert_failed",
    "counter",
    "Attempts to send a message about a row that the webhook refused or did not answer.",
    "Rising: the log names the reason. Messages are sent again.",
    _ALERT,
)
ROW_ALERT_DEAD_LETTERS = Metric(
    "headwater_row_alert_dead_letters",
    "counter",
    "Messages about rows that this process has put aside as dead letters.",
    "Above 0: `headwater dead-letters list` shows them.",
    _ALERT,
)
ROW_ALERT_LAG = Metric(
    "headwater_row_alert_lag_records",
    "gauge",
    "Records of the topic, or changes of the view, that this process has not read, or whose "
    "message was not delivered yet; none while headwater_row_alert_running is 0.",
    "Rising: the webhook takes less than changes come.",
    _ALERT,
)
ROW_ALERT_STATE = Metric(
    "headwater_row_alert_state",
    "stateset",
    "State of an alert on rows, of all servers together: 1 for the one that holds.",
    "Only idle and fresh are good. blocked: no server sends it, or 1,000 dead letters wait.",
    _ALERT,
    tuple(state.value for state in State),
)
ROW_ALERT_SECONDS = Metric(
    "headwater_row_alert_lag_seconds",
    "gauge",
    "Age of the oldest commit that an alert on rows has not looked at, or whose message was not "
    "delivered yet.",
    "Rising: the webhook takes less than changes come, or nobody sends.",
    _ALERT,
)
ROW_ALERT_LETTERS = Metric(
    "headwater_row_alert_open_dead_letters",
    "gauge",
    "Messages about rows that wait as dead letters now.",
    "Above 0: `headwater dead-letters retry` or `discard`. At 1,000 the alert sends nothing.",
    _ALERT,
)
ROW_ALERT_UNDELIVERED = Metric(
    "headwater_row_alert_undelivered_seconds",
    "gauge",
    "For how long Kafka, or the log of the view's changes, has held the oldest change that an "
    "alert on rows has not looked at, or whose message was not delivered; 0 without one.",
    "As headwater_row_alert_lag_seconds, without what capture and the view lack.",
    _ALERT,
)
ROW_ALERT_LIMIT = Metric(
    "headwater_row_alert_undelivered_limit_seconds",
    "gauge",
    "The time above which an alarm fires (alerts.lag_s).",
    "What headwater_row_alert_undelivered_seconds is compared with.",
    _ALERT,
)
EVENTS = of_source(
    "headwater_serve_events",
    "Events that were sent to clients, rows of snapshots among them.",
    "Throughput.",
    kind="counter",
)
