"""What to do about alarms of capture, the source and its slot."""

from __future__ import annotations

from typing import Final

from cdc.alarms.alarm import Guide

CAPTURE_SILENT: Final = Guide(
    "Capture writes a heartbeat into the source every `capture.heartbeat_s` seconds. For three "
    "intervals Kafka has acknowledged neither a progress mark nor records of a transaction that is "
    "still being published. Views get no changes, and the source keeps WAL. Nothing is lost yet.",
    (
        "`headwater capture` has ended, hangs, or cannot reach the source or Kafka.",
        "The source does not answer, or is a standby, which cannot write heartbeats.",
        "Kafka does not acknowledge: no leader, a full disk, a right that was taken away.",
    ),
    (
        "`headwater health`: what is missing.",
        "`headwater lag`: the state of capture and of its slot.",
        "The log of capture: its last error names the server and the way out.",
    ),
    (
        "Start the server that does not answer. Capture connects again by itself.",
        "If capture has ended, do what its error says, then start `headwater capture`.",
        "If it runs and `/livez` answers 503, restart it: it goes on where Kafka ends.",
        "Wait until `headwater health` exits with 0; the backlog shrinks in `headwater lag`.",
    ),
)
SLOT_INACTIVE: Final = Guide(
    "No process has read the replication slot for five minutes. PostgreSQL keeps all WAL from now "
    "on until capture reads it, or the slot is lost.",
    (
        "`headwater capture` is not started, or ends again and again.",
        "Capture cannot connect: password, `pg_hba.conf`, network, no free WAL sender.",
    ),
    (
        "`headwater lag`: how much WAL is retained, and how much may still be written.",
        "`headwater check`: whether capture's role and the server allow it.",
        "The log of capture.",
    ),
    (
        "Do what the last error of capture says, and start `headwater capture`.",
        "If it has to stay down for long, raise `max_slot_wal_keep_size` if the disk has room.",
        "If it shall never run again, run `headwater uninstall`, which drops the slot.",
    ),
)
RESTART_STANDS: Final = Guide(
    "Capture confirms changes, but `restart_lsn` of the slot has not moved for ten minutes: the "
    "source keeps WAL that nobody needs any more.",
    (
        "A transaction that has written something is open for long: a forgotten session, a batch "
        "job, a prepared transaction.",
    ),
    (
        "`headwater_source_oldest_transaction_seconds`: for how long the oldest one is open.",
        "On the source: `select pid, xact_start, state, query from pg_stat_activity where "
        "backend_xid is not null order by xact_start`.",
        "On the source: `select gid, prepared from pg_prepared_xacts`.",
    ),
    (
        "End that transaction: `select pg_terminate_backend(PID)`, or `rollback prepared 'GID'`.",
        "`headwater lag` shows that retained WAL shrinks, within a minute or two.",
        "Set `idle_in_transaction_session_timeout` on the source, so that it does not come again.",
    ),
)
WAL_NEAR_LIMIT: Final = Guide(
    "At the speed of the last minutes WAL that the slot retains exceeds `max_slot_wal_keep_size` "
    "within two hours, which costs the slot, or fills the file system that it is on, which stops "
    "the source. Or the slot has exceeded its limit already (`unreserved`) and the next checkpoint "
    "may take it.",
    (
        "Capture is stopped, or slower than the source writes.",
        "An old transaction holds `restart_lsn` (HW003).",
        "A mass change writes more WAL than usual.",
    ),
    (
        "`headwater lag`: whether capture catches up, and when; how much more the slot and the "
        "volume take.",
        "`headwater_slot_loss_forecast_seconds` and `headwater_source_disk_full_forecast_seconds`: "
        "which of them comes first.",
    ),
    (
        "If the slot is lost first and the disk has room, raise the limit on the source at once: "
        "`alter system set max_slot_wal_keep_size = '...'`, then `select pg_reload_conf()`.",
        "If the disk is full first, extend the volume, or set `max_slot_wal_keep_size` to less "
        "than it has room for: `headwater init --again` repairs a lost slot, a full disk stops "
        "the application.",
        "Get capture to run: HW001 and HW002 say how.",
        "Pause what can wait: the mass change, and snapshots (`headwater snapshot pause ID`).",
    ),
)
SLOT_LOST: Final = Guide(
    "PostgreSQL has removed WAL that capture has not read, or somebody has dropped the slot. "
    "Changes from then on cannot be read any more. Stores keep what they have.",
    (
        "More WAL was retained than `max_slot_wal_keep_size`.",
        "The slot was dropped by hand, or by capture itself: `capture.wal_limit_action`.",
        "The server was restored from a backup, or a standby without the slot was promoted.",
    ),
    (
        "`headwater lag`: `wal_status` and why the slot was invalidated.",
        "The log of PostgreSQL.",
    ),
    (
        "Mend what kept capture from reading: else the next slot is lost, too.",
        "Run `headwater init --again`: a new slot and a new snapshot. Views apply it.",
        "Start `headwater capture`, and `headwater apply` if it has ended.",
        "Run `headwater verify VIEW` for each view: rows that were deleted meanwhile are gone.",
    ),
)
WAL_RETAINED: Final = Guide(
    "WAL that the slot retains takes more than a quarter of the file system that it is on. If that "
    "fills up, the source stops.",
    (
        "Capture is stopped or slow (HW001, HW002).",
        "An old transaction holds `restart_lsn` (HW003).",
    ),
    (
        "`headwater lag`: retained and unconfirmed WAL.",
        "`headwater_source_wal_free_bytes` and `headwater_source_disk_full_forecast_seconds`, "
        "where they are known.",
    ),
    (
        "Let capture catch up; if the source must not fill up before, extend the volume.",
        "Set `max_slot_wal_keep_size` on the source: a lost slot is repaired by `headwater init "
        "--again`, a full disk stops the application.",
        "Set `capture.wal_limit_mb` for a limit while capture runs.",
    ),
)
SNAPSHOT_STANDS: Final = Guide(
    "A snapshot that is not paused has not completed a chunk for ten minutes, or will take longer "
    "than the slot lives, or the volume of the source's WAL has room, at the speed at which the "
    "slot retains WAL. Capture looks at snapshots, so the one of `headwater init` is not watched "
    "before capture runs.",
    (
        "The process that reads it has ended: the snapshot is `interrupted` or `failed`.",
        "A lock on a table, or a source that is busy: chunks wait.",
        "`snapshot.rate` is low for a table of that size, or a chunk is large.",
        "Kafka takes rows slowly.",
    ),
    (
        "`headwater snapshot status ID`: rows, speed and time left of each table.",
        "On the source: `select pid, wait_event_type, wait_event, query from pg_stat_activity "
        "where application_name like 'headwater%'`.",
    ),
    (
        "`headwater snapshot resume ID` goes on where it ended; or `headwater snapshot cancel ID`.",
        "End what holds the lock, or wait for it.",
        "To go faster, `headwater snapshot cancel ID`, and start another one with a higher "
        "`--rate` or more `--workers`: one that is resumed keeps those that it began with.",
        "If the slot would be lost, or the volume full, before it ends: HW004.",
    ),
)
DECODING_SPILLS: Final = Guide(
    "The source decodes transactions that do not fit `logical_decoding_work_mem`, and writes them "
    "to its disk first, for a quarter of an hour now. That is slow, and takes disk.",
    (
        "Large transactions, one after the other: a batch job, a migration.",
        "`logical_decoding_work_mem` is small (64 MB by default).",
    ),
    (
        "`headwater_slot_spilled_transactions_total`: few large transactions, or many.",
        "On the source: `select * from pg_stat_replication_slots`.",
    ),
    (
        "Raise `logical_decoding_work_mem` on the source and reload; capture's next session uses "
        "it.",
        "Let batch jobs commit more often.",
    ),
)
CLOCK_SKEW: Final = Guide(
    "The clock of the source and that of the machine of Headwater differ by more than a second. "
    "The difference is part of every lag in seconds, and of alarms on it. No change is affected.",
    ("Time synchronisation has failed on one of the machines.",),
    (
        "`headwater_source_clock_offset_seconds`: above 0 the source is ahead.",
        "`timedatectl` or `chronyc tracking` on both.",
    ),
    ("Start time synchronisation on the machine whose clock is wrong.",),
)
