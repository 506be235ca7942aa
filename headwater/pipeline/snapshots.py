"""Snapshots as they are shown. Pure."""

from __future__ import annotations

from headwater.lag.document import lsn_text
from headwater.lag.snapshot_watch import progress
from headwater.pipeline.pages import SnapshotLine, SnapshotTable
from snapshots.status import Standing


def snapshot_line(one: Standing) -> SnapshotLine:
    """A snapshot with its tables."""
    whole = progress(one)
    speeds = [table.rows_s for table in one.tables if table.rows_s is not None]
    return SnapshotLine(
        id=one.id,
        kind=one.kind,
        status=one.status,
        lsn=lsn_text(one.lsn),
        rows=one.rows,
        share=1.0 if one.complete else whole.done,
        rows_s=sum(speeds) if speeds else None,
        left_s=None if one.complete else whole.left_s,
        begun_at_s=one.started_at.timestamp(),
        ended_at_s=one.finished_at.timestamp() if one.finished_at else None,
        error=one.error or "",
        tables=tuple(
            SnapshotTable(
                table.label, table.rows, table.share, table.finished, table.rows_s, table.left_s,
                table.dead_letters,
            )
            for table in one.tables
        ),
    )  # fmt: skip
