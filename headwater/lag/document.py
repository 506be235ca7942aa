"""Lag as JSON: what `headwater lag --json` prints and the server answers."""

from __future__ import annotations

from typing import Any

from cdc.lag.report import CaptureReport, ViewReport
from cdc.lsn import format_lsn
from headwater.lag.alert_lags import AlertReport
from headwater.lag.parked_counts import waiting_keys
from headwater.lag.verified import Verified
from headwater.lag.watch import Seen

Document = dict[str, Any]


def document(seen: Seen) -> Document:
    """As JSON: LSNs as PostgreSQL writes them, sizes in bytes, moments in seconds since 1970."""
    report, lag = seen.report, seen.report.lag
    progress = None if lag.progress_lsn is None else format_lsn(lag.progress_lsn)
    partitions = [one for view in report.views for one in view.partitions]
    states = [state for view in report.views for state in view.states]
    parked = waiting_keys(partitions, seen.parked)
    return {
        "wal_lsn": format_lsn(lag.wal_lsn),
        "progress_lsn": progress,
        "measured_at_s": round(lag.at_s, 3),
        "capture": _capture_document(report.capture),
        "views": [
            {
                "view": item.view,
                "topic": item.topic,
                "partition": item.partition,
                "state": state.value,
                "committed": item.committed,
                "end": item.end,
                "behind_records": item.behind_records,
                "behind_bytes": item.behind_bytes,
                "behind_s": round(item.behind_s, 3),
                "in_kafka_s": round(item.in_kafka_s, 3),
                "lost_records": item.lost_records,
                "parked_keys": waiting,
            }
            for item, state, waiting in zip(partitions, states, parked, strict=True)
        ],
        "summary": [
            _view_document(view, report.capture)
            | {"verified": verified_document(seen.verified.get(view.view))}
            for view in report.views
        ],
        "faults": [{"view": view, **fault} for view, fault in seen.faults.items()],
        "alerts": [_alert_document(one) for one in seen.alerts],
    }


def _alert_document(alert: AlertReport) -> Document:
    return {
        "alert": alert.alert,
        "of": alert.of,
        "state": alert.state.value,
        "blocked_by": alert.blocked_by or None,
        "behind_s": _rounded(alert.lag_s),
        "behind_records": alert.behind_records,
        "waiting_messages": alert.waiting,
        "dead_letters": alert.dead_letters,
        "last_delivered_s": _rounded(alert.delivered_s),
        "problem": alert.problem or None,
    }


def _capture_document(capture: CaptureReport) -> Document:
    slot = capture.lag
    found: Document = {
        "slot": slot.slot,
        "state": capture.state.value,
        "blocked_by": capture.blocked_by.text if capture.blocked_by else None,
        "active": slot.active,
        "behind_bytes": slot.behind_bytes,
        "retained_bytes": slot.retained_bytes,
        "behind_s": _rounded(capture.lag_s),
        "complete_until_s": _rounded(capture.complete_until_s),
        "last_mark_s": _rounded(capture.moved_s),
        "catch_up_s": _rounded(capture.rates.catch_up_s if capture.rates else None),
    }
    if (seen := slot.activity) is not None:
        found |= {
            "sent_lsn": lsn_text(seen.sent),
            "confirmed_lsn": lsn_text(seen.confirmed),
            "restart_lsn": lsn_text(seen.restart),
            "wal_status": seen.wal_status,
            "safe_wal_bytes": seen.safe_wal_size,
            "slot_loss_s": _rounded(capture.forecast.slot_loss_s),
            "wal_free_bytes": seen.volume_free_bytes,
            "disk_full_s": _rounded(capture.forecast.disk_full_s),
            "inactive_since_s": seen.inactive_since_s,
            "spilled_bytes": seen.spilled_bytes,
            "spilled_transactions": seen.spilled_transactions,
            "wait_event": seen.wait_event or None,
            "catalog_xmin_age": seen.catalog_xmin_age,
            "oldest_transaction_s": seen.oldest_transaction_s,
        }
    return found


def _view_document(view: ViewReport, capture: CaptureReport) -> Document:
    rates = view.rates
    return {
        "view": view.view,
        "state": view.state.value,
        "blocked_by": view.blocked_by.text if view.blocked_by else None,
        "behind_s": round(view.lag_s, 3),
        "source_to_kafka_s": _rounded(capture.lag_s),
        "kafka_to_view_s": round(view.in_kafka_s, 3),
        "behind_records": view.behind_records,
        "behind_bytes": view.behind_bytes,
        "lost_records": view.lost_records,
        "parked_keys": view.parked_keys,
        "applied_per_s": _rounded(rates.done if rates else None),
        "added_per_s": _rounded(rates.added if rates else None),
        "catch_up_s": _rounded(rates.catch_up_s if rates else None),
        "last_applied_s": _rounded(view.moved_s),
        "heartbeat_s": _rounded(view.heartbeat_s),
    }


def verified_document(found: Verified | None) -> Document | None:
    """What background checks found of a view."""
    if found is None:
        return None
    return {
        "equal_lsn": lsn_text(found.equal_lsn),
        "equal_at_s": _rounded(found.equal_s),
        "checked_at_s": round(found.checked_s, 3),
        "checked_keys": found.keys,
        "skipped_keys": found.skipped,
        "differences": len(found.differing),
        "not_checked": found.reason or None,
    }


def lsn_text(lsn: int | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
