"""How the way of a row is shown: for people, and as JSON."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from cdc.lsn import format_lsn
from headwater.cli.common.format import age
from headwater.cli.common.records import key_text, plain
from headwater.cli.trace.changes import Change, KeyLog
from headwater.cli.trace.way import Batch, OfView, Way

if TYPE_CHECKING:
    from rich.console import Console

_OPS = {"c": "insert", "u": "update", "d": "delete", "r": "snapshot", "t": "truncate"}


def document(found: Way) -> dict[str, Any]:
    """As JSON: LSNs as PostgreSQL writes them, moments in seconds since 1970."""
    log = found.log
    return {
        "table": found.key.table,
        "key": found.key.texts,
        "topic": log.topic,
        "partition": log.partition,
        "searched": {"from": log.start, "to": log.end, "all": log.complete},
        "changes": [
            one._asdict() | {"op": _OPS.get(one.op, one.op), "lsn": format_lsn(one.lsn)}
            for one in log.changes
        ],
        "views": [_view_document(one) for one in found.views],
    }


def _view_document(one: OfView) -> dict[str, Any]:
    row = one.stored
    position = row.position if row else None
    return {
        "view": one.view,
        "store": one.store,
        "next_offset": one.at,
        "applied": one.applied,
        "waits_for": _waits(one) or None,
        "last_applied_s": one.moved_s,
        "behind_s": round(one.lag_s, 3),
        "batch": _batch_document(one.batch),
        "row": None
        if row is None
        else {
            "key": row.key,
            "present": position is not None,
            "version_lsn": format_lsn(position.commit_lsn) if position else None,
            "batch": _batch_document(row.batch),
        },
        "row_not_checked": one.unseen or None,
    }


def _batch_document(batch: Batch | None) -> dict[str, Any] | None:
    return None if batch is None else {"number": batch.number, "applied_s": round(batch.at_s, 3)}


def show(found: Way, console: Console) -> None:
    """The changes, then the views, then how far the search went."""
    log = found.log
    key = plain(key_text(found.key.event))
    console.print(f"{found.key.table} {key}: {log.topic}-{log.partition}", markup=False)
    if log.changes:
        console.print(_changes(log))
    else:
        where = "" if log.complete else " in what was searched"
        console.print(f"no change of this key was found{where}", style="yellow")
    if found.views:
        console.print(_views(found))
    else:
        console.print("no view reads the table")
    console.print(_searched(log), style="dim", soft_wrap=True, markup=False)


def _changes(log: KeyLog) -> Table:
    grid = Table("change", "committed (UTC)", "LSN", "offset", "in Kafka after")
    for one in log.changes:
        grid.add_row(
            _OPS.get(one.op, one.op),
            _moment(one.committed_s),
            format_lsn(one.lsn),
            f"{one.offset:,}",
            _delay(one),
        )
    return grid


def _moment(seconds: float) -> str:
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def _delay(one: Change) -> str:
    if one.op == "r":
        return "-"  # a snapshot's row was committed whenever
    return f"{max(0.0, one.sent_s - one.committed_s):.3f} s"


def _views(found: Way) -> Table:
    grid = Table("view", "newest change", "in batch", "row in the store")
    for one in found.views:
        state = Text("nothing to apply" if one.applied is None else "applied", "green")
        if one.applied is False:
            state = Text(f"not yet applied, {one.lag_s:,.1f} s behind", "red")
        if one.waits:
            state.append(f": waits: {plain(_waits(one))}", "red")
        elif one.applied and one.moved_s:
            state.append(f", last moved {age(time.time() - one.moved_s)} ago")
        grid.add_row(one.view, state, _at(one.batch), _row(one))
    return grid


def _waits(one: OfView) -> str:
    return f"{one.waits}: {one.cause}" if one.cause else one.waits


def _row(one: OfView) -> Text:
    if one.stored is None:
        return Text(f"not checked: {plain(one.unseen)}", "dim")
    position = one.stored.position
    if position is None:
        return Text("none")
    made = f", made after batch {one.stored.batch.number:,}" if one.stored.batch else ""
    return Text(f"present, version {format_lsn(position.commit_lsn)}{made}")


def _at(batch: Batch | None) -> str:
    return "-" if batch is None else f"{batch.number:,} at {_moment(batch.at_s)}"


def _searched(log: KeyLog) -> str:
    count = f"{log.end - log.start:,} records (offsets {log.start:,} to {log.end:,})"
    if log.complete:
        return f"searched all {count} of the partition that Kafka still has"
    further = "--changes shows more" if log.enough else "--records and --since look further back"
    return f"searched the last {count}: {further}"
