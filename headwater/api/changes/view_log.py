"""A view's rows and changes in the form of those of a table. Pure.

The log has one partition. A change's number is its offset, so a client's place and what it may go
on from are those of tables. The event of a change has the envelope of a table's; ``source`` names
the view, and the position under which its store has the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from cdc.lsn import Position
from cdc.protocol.relation import Column, Relation, TypeInfo
from headwater.api.changes.log_reader import GoneError, Log
from headwater.api.changes.ring import Entry
from jobs.state.feeds.alert_places import AlertLog
from jobs.state.feeds.feed_reader import FeedPart, FeedState, LoggedChange

PARTITION: Final = 0
REBUILT: Final = "rebuilt"


def log_of(state: FeedState) -> Log:
    """From the oldest change that is kept, or could be: place 1 is before all of them."""
    begin, end = (state.trimmed + 1,), (state.last + 1,)
    # No topic has a space in its name.
    return Log(f"view {state.view}", state.epoch, begin, end, REBUILT)


def relation_of(state: FeedState | AlertLog) -> Relation:
    """The columns as documents have their values. Each event has the whole row."""
    columns = tuple(_column(one, state.key) for one in state.columns)
    return Relation(0, "views", state.view, "f", columns, state.key)


def _column(one: Mapping[str, Any], key: Sequence[str]) -> Column:
    kind = TypeInfo(0, one["schema"], one["type"], one["kind"], one["base"])
    return Column(one["name"], kind, one["typmod"], one["name"] in key)


def entries_of(view: str, part: FeedPart, epoch: str, number: int) -> list[Entry]:
    """The changes that follow ``number``, as a client's next one. Raises ``GoneError`` where they
    are not all there."""
    refuse(view, part, epoch, number)
    return [_entry(view, change) for change in part.changes]


def refuse(view: str, part: FeedPart, epoch: str, number: int) -> None:
    """Raise ``GoneError`` where ``number`` is not what follows a change of this log, or the start
    of what is kept of it."""
    if part.epoch != epoch:
        raise rebuilt(view)
    if number <= part.trimmed:
        raise GoneError("retention", f"view {view}: the next change is no longer kept")
    if not part.is_known:
        raise GoneError(
            "future", f"view {view}: no such change is known: the state went back to an older copy"
        )


def rebuilt(view: str) -> GoneError:
    """Readers see another generation, or none."""
    return GoneError(REBUILT, f"view {view}: readers see another generation of it now")


def row_event(view: str, told: str, row: str, lsn: int, ordinal: int) -> tuple[bytes, bytes]:
    """Key and value of a row of a snapshot."""
    return told.encode(), _value(view, b"null", row.encode(), (lsn, ordinal), "r", None)


def _entry(view: str, change: LoggedChange) -> Entry:
    row = change.row.encode()
    before, after = (row, b"null") if change.op == "d" else (b"null", row)
    position = Position(change.lsn, change.ordinal)
    at_ms = int(change.at.timestamp() * 1_000)
    value = _value(view, before, after, position, change.op, at_ms)
    return Entry(PARTITION, change.seq, change.told.encode(), value, position, change.op)


def _value(
    view: str, before: bytes, after: bytes, position: tuple[int, int], op: str, at_ms: int | None
) -> bytes:
    lsn, ordinal = position
    source = orjson.dumps({"view": view, "commit_lsn": lsn, "ordinal": ordinal})
    end = orjson.dumps({"op": op, "ts_ms": at_ms})[1:]
    return b'{"before":%s,"after":%s,"source":%s,%s' % (before, after, source, end)
