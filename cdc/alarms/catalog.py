"""The eighteen alarms. From here come the rules for Prometheus, the inhibitions for Alertmanager,
``docs/alarms.md``, ``headwater explain`` and the messages to a webhook."""

from __future__ import annotations

from typing import Final

from cdc.alarms import alert_guides as of_alert
from cdc.alarms import source_guides as of_source
from cdc.alarms import view_guides as of_view
from cdc.alarms.alarm import Alarm
from cdc.alarms.conditions import Above, Below, Grows, Older, OneOf, Stands, Unless, Zero
from cdc.lag.states import State
from cdc.metrics import catalog as m
from cdc.metrics import forecast_catalog as f
from cdc.metrics import serve_catalog as s

_HOUR_S: Final = 3_600
_CAPTURE_MOVES: Final = OneOf(m.CAPTURE_STATE, ("idle", "fresh", "catching up", "falling back"))
"""Some process knows that changes come through: one that cannot look does not know it better, and
a transaction that takes long to publish has no mark before its end."""

ALARMS: Final = (
    Alarm(
        "HW001",
        "CaptureSilent",
        "critical",
        (
            Unless(
                Older(m.CAPTURE_MARK, m.SOURCE_HEARTBEAT_EVERY, factor=3, after_end=True),
                _CAPTURE_MOVES,
            ),
            Unless(OneOf(m.CAPTURE_STATE, ("stalled", "source unknown")), _CAPTURE_MOVES),
        ),
        0.5,
        ("HW005",),
        "{source}: nothing has come through to Kafka for three intervals of heartbeats",
        of_source.CAPTURE_SILENT,
    ),
    Alarm(
        "HW002",
        "SlotInactive",
        "critical",
        (Zero(m.SLOT_ACTIVE, lasting=True),),
        5,
        ("HW005",),
        "{source}: no capture has read the slot for five minutes",
        of_source.SLOT_INACTIVE,
    ),
    Alarm(
        "HW003",
        "RestartLsnStands",
        "warning",
        (Stands(m.SLOT_RESTART, beside=m.SLOT_CONFIRMED, minutes=10),),
        5,
        ("HW005",),
        "{source}: changes are confirmed, and restart_lsn of the slot does not move",
        of_source.RESTART_STANDS,
    ),
    Alarm(
        "HW004",
        "WalNearLimit",
        "critical",
        (
            Below(f.SLOT_FORECAST, 2 * _HOUR_S, lasting=True),
            Below(f.DISK_FORECAST, 2 * _HOUR_S, lasting=True),
            OneOf(m.SLOT_WAL_STATUS, ("unreserved",), lasting=True),
        ),
        2,
        ("HW005",),
        "{source}: in less than two hours the slot is lost, or the volume of the source's WAL full",
        of_source.WAL_NEAR_LIMIT,
    ),
    Alarm(
        "HW005",
        "SlotLost",
        "critical",
        (
            OneOf(m.SLOT_WAL_STATUS, ("lost",), lasting=True),
            OneOf(m.CAPTURE_BLOCKED, ("no slot", "slot lost")),
        ),
        0,
        (),
        "{source}: the slot is lost or gone, and changes with it",
        of_source.SLOT_LOST,
    ),
    Alarm(
        "HW006",
        "WalRetained",
        "warning",
        (Above(m.SLOT_RETAINED, f.SOURCE_VOLUME, factor=0.25, lasting=True),),
        5,
        ("HW004", "HW005"),
        "{source}: the slot retains more than a quarter of the WAL volume",
        of_source.WAL_RETAINED,
    ),
    Alarm(
        "HW007",
        "ViewLate",
        "warning",
        (Above(m.VIEW_LAG_SECONDS, m.VIEW_LAG_TARGET),),
        1,
        ("HW001", "HW005", "HW008", "HW011"),
        "{source}: view {view} is later than alerts.lag_s allows",
        of_view.LATE,
    ),
    Alarm(
        "HW008",
        "ViewStalled",
        "critical",
        (OneOf(m.VIEW_STATE, ("stalled",)),),
        1,
        ("HW005", "HW011"),
        "{source}: view {view} has changes to apply, and none is applied",
        of_view.STALLED,
    ),
    Alarm(
        "HW009",
        "RetentionNear",
        "critical",
        (Above(f.VIEW_RETENTION_USED, 0.5), Above(m.VIEW_LOST, 0)),
        5,
        (),
        "{source}: what view {view} has not applied is old enough for Kafka to delete it soon",
        of_view.RETENTION_NEAR,
    ),
    Alarm(
        "HW010",
        "DeadLetters",
        "warning",
        (Above(m.VIEW_PARKED, 0), Grows(m.CAPTURE_DEAD_LETTERS, minutes=30)),
        1,
        (),
        "{source}: records wait as dead letters",
        of_view.DEAD_LETTERS,
    ),
    Alarm(
        "HW011",
        "ViewStopped",
        "critical",
        (OneOf(m.VIEW_BLOCKED, ("stopped",)),),
        0.5,
        (),
        "{source}: view {view} was stopped by a schema change that it cannot follow, or an error",
        of_view.STOPPED,
    ),
    Alarm(
        "HW012",
        "SnapshotStands",
        "warning",
        (
            Older(f.SNAPSHOT_MOVED, 10 * 60),
            Above(f.SNAPSHOT_LEFT, f.SLOT_FORECAST),
            Above(f.SNAPSHOT_LEFT, f.DISK_FORECAST),
        ),
        1,
        ("HW005",),
        "{source}: snapshot {snapshot} does not get on, or WAL has no more room before it ends",
        of_source.SNAPSHOT_STANDS,
    ),
    Alarm(
        "HW013",
        "HeartbeatMissing",
        "critical",
        (
            Unless(
                Older(m.VIEW_HEARTBEAT, m.SOURCE_HEARTBEAT_EVERY, factor=3, after_end=True),
                OneOf(m.VIEW_STATE, tuple(one for one in State if one != State.NO_DATA)),
            ),
        ),
        2,
        ("HW001", "HW005"),
        "{source}: no process reports on view {view}",
        of_view.HEARTBEAT_MISSING,
    ),
    Alarm(
        "HW014",
        "DecodingSpills",
        "warning",
        (Grows(m.SLOT_SPILLED, minutes=10),),
        15,
        ("HW005",),
        "{source}: the source writes decoded changes to its disk again and again",
        of_source.DECODING_SPILLS,
    ),
    Alarm(
        "HW015",
        "ViewDiffers",
        "critical",
        (Above(f.VIEW_DIFFERENCES, 0),),
        0,
        (),
        "{source}: a check found rows of view {view} that differ from the source",
        of_view.DIFFERS,
    ),
    Alarm(
        "HW016",
        "ClockSkew",
        "warning",
        (Above(m.SOURCE_CLOCK, 1, size=True, lasting=True),),
        2,
        (),
        "{source}: the clocks of source and Headwater differ by more than a second",
        of_source.CLOCK_SKEW,
    ),
    Alarm(
        "HW017",
        "RowAlertStopped",
        "critical",
        (OneOf(s.ROW_ALERT_STATE, ("blocked",)),),
        2,
        (),
        "{source}: nobody sends the messages of alert {alert}",
        of_alert.STOPPED,
    ),
    Alarm(
        "HW018",
        "RowAlertWaits",
        "warning",
        (Above(s.ROW_ALERT_UNDELIVERED, s.ROW_ALERT_LIMIT), Above(s.ROW_ALERT_LETTERS, 0)),
        1,
        ("HW017",),
        "{source}: messages of alert {alert} wait, or were given up",
        of_alert.WAITS,
    ),
)
BY_CODE: Final = {alarm.code: alarm for alarm in ALARMS}
