"""The pages of source and views, from a look at lag. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.config import Config
from cdc.lag.report import CaptureReport, ViewReport
from cdc.lag.states import State
from headwater.lag.document import lsn_text
from headwater.lag.verified import Verified
from headwater.lag.watch import Seen
from headwater.pipeline import advice
from headwater.pipeline.pages import (
    Check,
    GenerationLine,
    SlotPage,
    SourcePage,
    ViewPage,
    ViewPartition,
)
from headwater.pipeline.picture import Pipeline


def source_page(
    picture: Pipeline,
    seen: Seen | None,
    checks: tuple[Check, ...],
    checked_at_s: float | None,
) -> SourcePage:
    """``seen`` is None while there is no look that says something of now."""
    if seen is None:
        return SourcePage(
            picture.source, State.NO_DATA, picture.measured_at_s, None, None, None, None, "", None,
            checks, checked_at_s, picture.advice,
        )  # fmt: skip
    capture = seen.report.capture
    return SourcePage(
        source=picture.source,
        state=capture.state,
        measured_at_s=picture.measured_at_s,
        wal_lsn=picture.wal_lsn,
        lag_s=capture.lag_s,
        records_s=picture.arrows[0].records_s,
        wal_bytes_s=capture.rates.added if capture.rates else None,
        blocked_by=capture.blocked_by.text if capture.blocked_by else "",
        slot=_slot(capture, seen.report.lag.progress_lsn),
        checks=checks,
        checked_at_s=checked_at_s,
        advice=advice.once(
            [
                *advice.of_capture(picture.source, capture),
                *advice.of_alarms(
                    one for one in picture.alarms if not one.view and one.code != "HW010"
                ),
            ]
        ),
    )


def _slot(capture: CaptureReport, progress_lsn: int | None) -> SlotPage | None:
    seen, forecast = capture.lag.activity, capture.forecast
    if seen is None:
        return None
    return SlotPage(
        slot=capture.lag.slot,
        exists=seen.exists,
        active=seen.pid is not None,
        received_lsn=lsn_text(seen.sent),
        durable_lsn=None if progress_lsn is None else lsn_text(progress_lsn + 1),
        confirmed_lsn=lsn_text(seen.confirmed),
        restart_lsn=lsn_text(seen.restart),
        wal_status=seen.wal_status,
        unconfirmed_bytes=seen.unconfirmed_bytes,
        retained_bytes=seen.retained_bytes,
        safe_bytes=seen.safe_wal_size,
        loss_s=forecast.slot_loss_s,
        disk_free_bytes=seen.volume_free_bytes,
        disk_full_s=forecast.disk_full_s,
        spilled_bytes=seen.spilled_bytes,
        spilled_transactions=seen.spilled_transactions,
        walsender_wait=seen.wait_event,
        catalog_xmin_age=seen.catalog_xmin_age,
        oldest_transaction_s=seen.oldest_transaction_s,
        inactive_since_s=seen.inactive_since_s,
        clock_ahead_s=seen.clock_ahead_s,
        sees_others=seen.sees_others,
    )


def view_page(
    config: Config,
    view: str,
    picture: Pipeline,
    seen: Seen | None,
    outline: Mapping[str, Any],
) -> ViewPage:
    """``outline`` is what ``headwater view show`` knows of the view without any server; empty, but
    for ``problems``, where that cannot be read."""
    line = next(one for one in picture.views if one.view == view)
    report = next((one for one in seen.report.views if one.view == view), None) if seen else None
    known = report is not None and line.state != State.NO_DATA
    verified = seen.verified.get(view) if seen else None
    unmeasured = seen.unmeasured.get(view) if seen else None
    problems = (*outline.get("problems", ()), *([str(unmeasured)] if unmeasured else ()))
    return ViewPage(
        line=line,
        measured_at_s=picture.measured_at_s,
        sql=outline.get("sql") or config.views[view].sql,
        key=tuple(outline.get("key") or config.views[view].key),
        tables=tuple(one["table"] for one in outline.get("tables", ())),
        declared_otherwise=outline.get("declared_otherwise", ""),
        applied=outline.get("applied"),
        source_to_kafka_s=seen.report.capture.lag_s if seen and known else None,
        kafka_to_view_s=report.in_kafka_s if report and known else None,
        partitions=_partitions(report) if report else (),
        generations=tuple(_generation(one) for one in reversed(outline.get("generations", ()))),
        live=outline.get("live"),
        building=outline.get("building"),
        **_checked(verified),
        problems=problems,
    )


def _partitions(report: ViewReport) -> tuple[ViewPartition, ...]:
    return tuple(
        ViewPartition(
            one.topic, one.partition, state, one.committed, one.end, one.behind_records,
            one.behind_bytes, one.behind_s, one.in_kafka_s, one.lost_records,
        )
        for one, state in zip(report.partitions, report.states, strict=True)
    )  # fmt: skip


def _generation(one: Mapping[str, Any]) -> GenerationLine:
    return GenerationLine(
        one["generation"], one["phase"], one["rows"], one["parked_keys"], one["lsn"],
        one["begun_at"], one["live_at"], one["retired_at"],
    )  # fmt: skip


def _checked(found: Verified | None) -> dict[str, Any]:
    return {
        "checked_at_s": found.checked_s if found else None,
        "checked_keys": found.keys if found else None,
        "differing_keys": len(found.differing) if found else None,
        "not_checked": found.reason if found else "",
    }
