"""What to do about alarms of views."""

from __future__ import annotations

from typing import Final

from cdc.alarms.alarm import Guide

LATE: Final = Guide(
    "A change that was committed more than `alerts.lag_s` seconds ago is not in the store. Readers "
    "see rows that are older than promised. Nothing is lost.",
    (
        "More changes come in than are applied, or a backlog is being caught up.",
        "The store is slow, or a query of the view is.",
        "Capture is late: then all views are.",
    ),
    (
        "`headwater lag VIEW`: state, speed, and until when it has caught up.",
        "`headwater_view_hop_lag_seconds`: `source_to_kafka` is capture, `kafka_to_view` is apply.",
        "`headwater view show VIEW --plan`: what the view costs for each change.",
    ),
    (
        "State `catching up`: wait; `headwater lag` says how long.",
        "State `falling back`: give apply more processor time, or move views to another `headwater "
        "apply`; look at the store's own load.",
        "If the promise is too strict, raise `alerts.lag_s`.",
    ),
)
STALLED: Final = Guide(
    "Kafka holds changes of the view, and none was applied for half a minute.",
    (
        "The store does not answer, is full or read-only: apply waits and tries again.",
        "`headwater apply` hangs, or is at one batch that takes longer than a minute and a half: "
        "its changes count as applied when all of it is in the store.",
        "The state database does not answer, or its disk is full.",
    ),
    (
        "`headwater lag VIEW`, and the log of apply: what it waits for.",
        "`/livez` and `/readyz` of apply.",
        "`headwater check`: whether each store answers and takes writes.",
    ),
    (
        "Mend the store; apply goes on by itself and nothing is applied twice.",
        "If `/livez` answers 503, restart `headwater apply`: it goes on where it stood.",
        "`headwater wait VIEW` ends when all is applied.",
    ),
)
RETENTION_NEAR: Final = Guide(
    "The oldest change that the view lacks has been in Kafka for more than half of the time for "
    "which its topic keeps records, or Kafka has deleted changes already. What is deleted there "
    "the view cannot apply.",
    (
        "`headwater apply` was stopped for long, or the view was.",
        "`retention.ms` of the topic is short for outages that happen.",
    ),
    (
        "`headwater_view_loss_forecast_seconds`: how long is left.",
        "`headwater lag VIEW --partitions`: where it is behind, and records that were lost.",
    ),
    (
        "Raise `retention.ms` of the topics with Kafka's own tool; it holds at once.",
        "Mend what keeps the view from being applied (HW008, HW011, HW013).",
        "If records are lost, run `headwater view rebuild VIEW`: readers keep the old rows until "
        "the new ones are complete.",
    ),
)
DEAD_LETTERS: Final = Guide(
    "Rows that a store refuses, or records that are too large for Kafka, are set aside. All other "
    "keys go on. Later changes of a key that waits wait behind it.",
    (
        "A value that the store's field does not take: a mapping, a length, a type.",
        "A record above Kafka's `max.message.bytes`.",
    ),
    (
        "`headwater dead-letters list`: which, and why.",
        "`headwater dead-letters show ID`: the record itself.",
    ),
    (
        "Mend the cause: the row on the source, or mapping and SQL of the view.",
        "Run `headwater dead-letters retry VIEW`.",
        "What nobody needs: `headwater dead-letters discard VIEW --key KEY`.",
    ),
)
STOPPED: Final = Guide(
    "A view has stopped, for it met something that trying again does not mend. Most often that is "
    "a schema change that its SQL cannot follow: a column that it reads was dropped, renamed or "
    "got another type. Other views go on, and readers keep what the store holds.",
    (
        "`ALTER TABLE` on a table that the view reads.",
        "The store or the state database refuses for good: a right, a missing schema.",
    ),
    (
        "`headwater lag VIEW`: the error, and what to do about it.",
        "`headwater view show VIEW`: its columns, and the SQL that it has.",
        "`headwater check`: whether its SQL fits the tables as they are now.",
    ),
    (
        "Adapt the view's SQL in the configuration, then run `headwater view rebuild VIEW`: it is "
        "built beside the old one and swapped in.",
        "Or take the schema change back, or give the right: apply tries again by itself.",
        "`headwater verify VIEW` proves that it is equal to the source.",
    ),
)
HEARTBEAT_MISSING: Final = Guide(
    "The newest heartbeat that the view has passed is older than three intervals, and for two "
    "minutes no process has measured any view of the source. A view that is measured and late is "
    "HW007.",
    (
        "`headwater apply` is not running, or cannot be scraped.",
        "It runs, and a server that it measures with does not answer: Kafka or the state database.",
    ),
    (
        "`headwater lag VIEW`: whether somebody applies it.",
        "Prometheus's page of targets: whether apply is scraped.",
        "The log of apply.",
    ),
    (
        "Start `headwater apply`; do what its error says if it ends.",
        "If the last view of the source was removed for good, the alarm ends a day after the last "
        "sample.",
    ),
)
DIFFERS: Final = Guide(
    "A check compared rows of the view with the source at one LSN, and some differ. Headwater "
    "promises that this does not happen: something else has written to the store, or it is a bug.",
    (
        "Rows in the store were changed or deleted by hand, or by another program.",
        "The store was restored from a backup, or lost acknowledged writes.",
        "A fault of Headwater.",
    ),
    (
        "`headwater verify VIEW`: which rows, and how.",
        "`headwater dead-letters list`: keys that wait are not counted here.",
    ),
    (
        "Keep the output of `headwater verify VIEW --json`: a report needs it.",
        "Run `headwater verify VIEW --repair`: it writes only rows that differ.",
        "If many differ, `headwater view rebuild VIEW`.",
    ),
)
