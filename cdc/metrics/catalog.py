"""Every metric: its name, labels, help, and what it tells an operator.

A test compares ``docs/metrics.md`` with this module. Ages are gauges of a moment, so that they grow
also when the process is dead. What is not known has no sample: a zero would look like good news.
"""

from __future__ import annotations

from typing import Final

from cdc.lag.states import State
from cdc.metrics import forecast_catalog, serve_catalog
from cdc.metrics.metric import Metric as Metric
from cdc.metrics.metric import of_source, of_view

STATES: Final = tuple(state.value for state in State)
WAL_STATUSES: Final = ("reserved", "extended", "unreserved", "lost")
HOPS: Final = ("source_to_kafka", "kafka_to_view")

BUILD = Metric(
    "headwater_build",
    "info",
    "Version of Headwater, and which process this is.",
    "Which version runs where, after an upgrade.",
    ("version", "process"),
)
MEASURED = Metric(
    "headwater_measured_timestamp_seconds",
    "gauge",
    "When the figures of this process were last measured.",
    "The figures are stale if this is old: a server does not answer the process that measures.",
    ("process",),
)

CAPTURE_STATE = of_source(
    "headwater_capture_state",
    "State of capture: 1 for the one that holds.",
    "The first thing to look at. Only idle and fresh are good.",
    kind="stateset",
    states=STATES,
)
CAPTURE_BLOCKED = Metric(
    "headwater_capture_blocked",
    "gauge",
    "1 for the cause that blocks capture: no slot, slot lost or not running.",
    "`headwater lag` says it in a sentence.",
    ("source", "cause"),
)
CAPTURE_RECORDS = of_source(
    "headwater_capture_records",
    "Records that this process has handed to Kafka.",
    "Throughput.",
    kind="counter",
)
CAPTURE_DEAD_LETTERS = of_source(
    "headwater_capture_dead_letters",
    "Records that this process found too large for Kafka, and cut into dead letters.",
    "Above 0: `headwater dead-letters list` shows them.",
    kind="counter",
)
CAPTURE_NULL_VALUES = of_source(
    "headwater_capture_null_values",
    "Values that this process wrote as null: a mode of `[events]` has nothing for them.",
    "Above 0: the log names the columns (`value_became_null`).",
    kind="counter",
)
CAPTURE_LAG_SECONDS = of_source(
    "headwater_capture_lag_seconds",
    "Age of the oldest commit of the source that is not in Kafka; 0 without one.",
    "How late capture is. It is one to three seconds too high while changes are being written, "
    "never too low.",
)
CAPTURE_COMPLETE = of_source(
    "headwater_capture_complete_timestamp_seconds",
    "Everything that was committed before this moment is in Kafka.",
    "Its age also grows while capture is dead.",
)
CAPTURE_HEARTBEAT = of_source(
    "headwater_capture_heartbeat_timestamp_seconds",
    "When the newest heartbeat that is durable in Kafka was written to the source.",
    "While capture catches up it is as old as what is being read.",
)
CAPTURE_MARK = of_source(
    "headwater_capture_mark_timestamp_seconds",
    "When Kafka last acknowledged a progress mark.",
    "The last success of the whole path from the source to Kafka; a long transaction has none "
    "before its end.",
)
CAPTURE_RECEIVED = of_source(
    "headwater_capture_received_lsn",
    "LSN up to which capture has received the stream, in bytes.",
    "Behind headwater_source_wal_lsn: the server or the network is slow.",
)
CAPTURE_DURABLE = of_source(
    "headwater_capture_durable_lsn",
    "LSN up to which Kafka has acknowledged everything, in bytes.",
    "Behind headwater_capture_received_lsn: Kafka is slow.",
)
CAPTURE_CONFIRMED = of_source(
    "headwater_capture_confirmed_lsn",
    "LSN up to which capture has confirmed to PostgreSQL, in bytes.",
    "Behind headwater_capture_durable_lsn for longer than a second: progress marks are refused.",
)
CAPTURE_CATCH_UP = of_source(
    "headwater_capture_catch_up_seconds",
    "Until capture is at the end of WAL if speeds stay; no sample when that is never.",
    "How long an outage will take to heal.",
)

SOURCE_WAL = of_source(
    "headwater_source_wal_lsn",
    "The newest LSN of the source, in bytes.",
    "Its rate is the WAL that the source writes in a second.",
)
SOURCE_HEARTBEAT_EVERY = of_source(
    "headwater_source_heartbeat_interval_seconds",
    "How often a heartbeat is written to the source (capture.heartbeat_s); no sample without.",
    "What the ages of heartbeats are compared with.",
)
SOURCE_CLOCK = of_source(
    "headwater_source_clock_offset_seconds",
    "Clock of the source less the clock of this machine.",
    "It is part of every lag in seconds: above one second, mend the clocks first.",
)
SOURCE_TRANSACTION = of_source(
    "headwater_source_oldest_transaction_seconds",
    "For how long the oldest transaction that has written is open.",
    "It keeps headwater_slot_restart_lsn where it is, and so WAL, while capture is well.",
)

SLOT_ACTIVE = of_source(
    "headwater_slot_active",
    "1 while a process reads the slot.",
    "0: no capture is connected, and WAL piles up on the source.",
)
SLOT_INACTIVE = of_source(
    "headwater_slot_inactive_since_timestamp_seconds",
    "Since when no process reads the slot (PostgreSQL 17 and newer).",
    "How long capture has been away, however often this process was restarted.",
)
SLOT_CONFIRMED = of_source(
    "headwater_slot_confirmed_lsn",
    "confirmed_flush_lsn of the slot, in bytes.",
    "Behind headwater_capture_confirmed_lsn: the server does not read what capture answers.",
)
SLOT_RESTART = of_source(
    "headwater_slot_restart_lsn",
    "restart_lsn of the slot, in bytes: WAL from here on is kept.",
    "It stands while headwater_slot_confirmed_lsn moves: an old transaction holds it.",
)
SLOT_RETAINED = of_source(
    "headwater_slot_retained_bytes",
    "WAL that the source keeps on its disk because of the slot.",
    "What a stopped capture costs the source.",
)
SLOT_UNCONFIRMED = of_source(
    "headwater_slot_unconfirmed_bytes",
    "WAL that capture has not confirmed.",
    "The backlog of capture.",
)
SLOT_SAFE = of_source(
    "headwater_slot_safe_wal_bytes",
    "WAL that may be written before the slot is lost; no sample without a limit.",
    "Divided by the rate of headwater_source_wal_lsn: the time until the slot is lost.",
)
SLOT_WAL_STATUS = of_source(
    "headwater_slot_wal_status",
    "wal_status of the slot: 1 for the one that holds.",
    "unreserved: the next checkpoint may take the slot. lost: run headwater init --again.",
    kind="stateset",
    states=WAL_STATUSES,
)
SLOT_SPILLED = of_source(
    "headwater_slot_spilled_bytes",
    "Decoded changes that the source wrote to disk, as they did not fit its memory.",
    "It grows steadily: raise logical_decoding_work_mem on the source.",
    kind="counter",
)
SLOT_SPILLED_TRANSACTIONS = of_source(
    "headwater_slot_spilled_transactions",
    "Transactions of which the source wrote decoded changes to disk.",
    "Whether spilling comes from few large transactions or from many.",
    kind="counter",
)
SLOT_XMIN_AGE = of_source(
    "headwater_slot_catalog_xmin_age_transactions",
    "Age of the slot's catalog_xmin in transactions.",
    "It keeps catalogs from being vacuumed: above some hundred million, act.",
)
WALSENDER_WAIT = Metric(
    "headwater_walsender_wait",
    "gauge",
    "1 for what the process that serves the slot waits for; no sample while it computes.",
    "Client/WalSenderWaitForWal: it has nothing to send. Client/WalSenderWriteData: capture does "
    "not take it.",
    ("source", "event"),
)

VIEW_STATE = of_view(
    "headwater_view_state",
    "State of the view: 1 for the one that holds.",
    "The first thing to look at. Only idle and fresh are good.",
    kind="stateset",
    states=STATES,
)
VIEW_BLOCKED = Metric(
    "headwater_view_blocked",
    "gauge",
    "1 for the cause that blocks the view: stopped, not applied or lost.",
    "`headwater lag` shows the error and what to do.",
    ("source", "view", "cause"),
)
VIEW_LAG_SECONDS = of_view(
    "headwater_view_lag_seconds",
    "Age of the oldest commit that the store lacks, in Kafka or not; 0 without one.",
    "How old what readers see can be. While the state is source unknown: at least so old.",
)
VIEW_LAG_TARGET = of_view(
    "headwater_view_lag_target_seconds",
    "The lag above which an alarm fires (alerts.lag_s).",
    "What headwater_view_lag_seconds is compared with.",
)
VIEW_OLDEST = of_view(
    "headwater_view_oldest_unapplied_timestamp_seconds",
    "When the oldest commit that the store lacks was made; no sample without one.",
    "As headwater_view_lag_seconds, but its age also grows while apply is dead.",
)
VIEW_HOP = Metric(
    "headwater_view_hop_lag_seconds",
    "gauge",
    "The lag of one hop: of the oldest commit that is not in Kafka, of the oldest record in Kafka "
    "that is not applied.",
    "Which side is late: source_to_kafka is capture, kafka_to_view is apply.",
    ("source", "view", "hop"),
)
VIEW_RECORDS = of_view(
    "headwater_view_lag_records", "Records in Kafka that are not applied.", "How much work is left."
)
VIEW_BYTES = of_view(
    "headwater_view_lag_bytes",
    "WAL of the source between what the view has applied and the end.",
    "Where the view stands in the source's history.",
)
VIEW_PARTITION_RECORDS = Metric(
    "headwater_view_partition_lag_records",
    "gauge",
    "Records of one partition that are not applied.",
    "Whether one partition holds the others up: a key with many changes.",
    ("source", "view", "topic", "partition"),
)
VIEW_PARTITION_SECONDS = Metric(
    "headwater_view_partition_lag_seconds",
    "gauge",
    "Age of the oldest commit in one partition that is not applied; 0 without one.",
    "The same in seconds.",
    ("source", "view", "topic", "partition"),
)
VIEW_APPLIED = of_view(
    "headwater_view_applied_records_per_second",
    "Records that were applied in a second, over half a minute.",
    "Speed of the view.",
)
VIEW_ADDED = of_view(
    "headwater_view_added_records_per_second",
    "Records that came into Kafka in a second, over half a minute.",
    "Above headwater_view_applied_records_per_second the view falls back.",
)
VIEW_CATCH_UP = of_view(
    "headwater_view_catch_up_seconds",
    "Until nothing is left if speeds stay; no sample when that is never.",
    "How long an outage will take to heal.",
)
VIEW_MOVED = of_view(
    "headwater_view_applied_timestamp_seconds",
    "When the view was last applied further.",
    "The last success of the view. Old and without lag: there was nothing to do.",
)
VIEW_HEARTBEAT = of_view(
    "headwater_view_heartbeat_timestamp_seconds",
    "When the newest heartbeat was written to the source that the view has passed.",
    "End to end: all that was committed before is in the store. Missing for three intervals: "
    "something between is broken.",
)
VIEW_PARKED = of_view(
    "headwater_view_parked_keys",
    "Keys that wait as dead letters.",
    "Above 0: `headwater dead-letters list` shows why.",
)
VIEW_LOST = of_view(
    "headwater_view_lost_records",
    "Records that Kafka deleted before the view applied them.",
    "Above 0: run headwater view rebuild, and keep records longer.",
)

CATALOG: Final = tuple(
    value
    for module in (globals(), vars(forecast_catalog), vars(serve_catalog))
    for value in list(module.values())
    if isinstance(value, Metric)
)
