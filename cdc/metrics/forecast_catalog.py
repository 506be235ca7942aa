"""Metrics of what is going to be lost, and when, of snapshots, and of what checks have proven."""

from __future__ import annotations

from cdc.metrics.metric import Metric, of_source, of_view

SLOT_FORECAST = of_source(
    "headwater_slot_loss_forecast_seconds",
    "Until the slot is lost if what it retains grows as in the last five minutes.",
    "No sample while it does not grow, and without max_slot_wal_keep_size. Start capture before.",
)
DISK_FORECAST = of_source(
    "headwater_source_disk_full_forecast_seconds",
    "Until the file system with the source's WAL is full if what the slot retains grows as in the "
    "last five minutes.",
    "No sample while it does not grow, or where headwater_source_wal_free_bytes has none. What "
    "else is written there comes on top.",
)
SOURCE_VOLUME = of_source(
    "headwater_source_wal_volume_bytes",
    "Size of the file system with the source's WAL: alerts.wal_volume_mb, or found out if it is of "
    "this machine.",
    "What headwater_slot_retained_bytes is compared with.",
)
SOURCE_VOLUME_FREE = of_source(
    "headwater_source_wal_free_bytes",
    "What is free of it, if the source is on this machine and the role may read data_directory; "
    "at most what retained WAL leaves of alerts.wal_volume_mb, if that is set.",
    "At 0 the source stops.",
)
SNAPSHOT_ROWS = Metric(
    "headwater_snapshot_rows",
    "gauge",
    "Rows of a snapshot that are in Kafka; of snapshots that are not complete.",
    "Its rate is the speed of the snapshot.",
    ("source", "snapshot"),
)
SNAPSHOT_DONE = Metric(
    "headwater_snapshot_completed_ratio",
    "gauge",
    "Share of the snapshot's chunks that are read, from 0 to 1.",
    "How far it is.",
    ("source", "snapshot"),
)
SNAPSHOT_LEFT = Metric(
    "headwater_snapshot_left_seconds",
    "gauge",
    "Until the snapshot is complete if its speed stays; no sample before the first chunk.",
    "Above headwater_slot_loss_forecast_seconds: raise max_slot_wal_keep_size now. Above "
    "headwater_source_disk_full_forecast_seconds: make room on the volume, or pause it.",
    ("source", "snapshot"),
)
SNAPSHOT_MOVED = Metric(
    "headwater_snapshot_progress_timestamp_seconds",
    "gauge",
    "When a chunk of the snapshot was last completed, or its last run began.",
    "Old: it does not get on, or its process has ended. A paused snapshot has no sample.",
    ("source", "snapshot"),
)
VIEW_RETENTION_USED = of_view(
    "headwater_view_retention_used_ratio",
    "Age of the oldest unapplied record in Kafka as a share of its topic's retention.ms.",
    "No sample where that is without limit. At 1 Kafka deletes records that the view lacks.",
)
VIEW_FORECAST = of_view(
    "headwater_view_loss_forecast_seconds",
    "Until Kafka may delete a record that the view lacks, if nothing is applied until then.",
    "No sample without a limit in time, or while nothing is missing.",
)
VIEW_VERIFIED = of_view(
    "headwater_view_verified_timestamp_seconds",
    "When what was checked of the view was last found equal to the source.",
    "Proof of freshness; old: nothing checks it, it differs, or rows keep changing or are parked.",
)
VIEW_VERIFIED_LSN = of_view(
    "headwater_view_verified_lsn",
    "LSN of the source that what was checked was last found equal at, in bytes.",
    "What the proof is of: compare it with headwater_source_wal_lsn.",
)
VIEW_DIFFERENCES = of_view(
    "headwater_view_differences",
    "Rows that the last check found to differ from the source.",
    "Above 0: `headwater verify VIEW` shows them, and mends them with --repair.",
)
