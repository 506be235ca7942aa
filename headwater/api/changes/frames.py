"""What a client is told: of rows in a spool, and of the entries of the log that it passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from cdc.lsn import format_lsn
from headwater.api.changes.event_position import event_of
from headwater.api.changes.log_reader import GoneError
from headwater.api.changes.place import LogPlace, Place, SnapshotPlace, base36
from headwater.api.changes.ring import Entry
from headwater.api.changes.selection import LEFT, Selection
from headwater.api.changes.sse import Frame
from headwater.api.spool.spool_file import SpoolReader
from headwater.conditions.condition import UndecidedError

BATCH_BYTES: Final = 128 << 10
_SCAN_BYTES: Final = 4 << 20
"""Of a spool that a filter reads through in one go."""


class Walk:
    """The offsets of one client, and what it is told of the entries that it passes."""

    def __init__(self, chosen: Selection, place: LogPlace) -> None:
        self.offsets = list(place.offsets)
        self._chosen, self._lsn = chosen, place.lsn
        self._prefix = place.prefix
        self._texts = list(map(base36, place.offsets))

    @property
    def place(self) -> str:
        return self._prefix + "-".join(self._texts)

    def reach(self, offsets: Mapping[int, int]) -> None:
        """Up to there nothing else stands."""
        for partition, offset in offsets.items():
            if offset > self.offsets[partition]:
                self._set(partition, offset)

    def frames(self, entries: Sequence[Entry]) -> list[Frame]:
        """Raises ``GoneError`` for an event that the client's filter cannot be decided of."""
        found = []
        for entry in entries:
            if entry.offset < self.offsets[entry.partition]:
                continue
            self._set(entry.partition, entry.offset + 1)
            if entry.position.commit_lsn < self._lsn:
                continue  # the snapshot's rows have it
            if self._chosen.everything:
                found.append(Frame("change", entry.value, self.place))
            elif frame := chosen_frame(self._chosen, entry.key, entry.value, self.place):
                found.append(frame)
        return found

    def _set(self, partition: int, offset: int) -> None:
        self.offsets[partition] = offset
        self._texts[partition] = base36(offset)


def chosen_frame(chosen: Selection, key: bytes | None, value: bytes, place: str) -> Frame | None:
    if not chosen.is_of_key(key):
        return None
    event = event_of(value)
    try:
        kind = chosen.kind(event)
    except UndecidedError as error:
        at = f"{format_lsn(event.position.commit_lsn)} ({event.position.ordinal})"
        raise GoneError("filter", f"the filter cannot be decided at {at}: {error}") from None
    if kind != LEFT:
        return Frame(kind, value, place) if kind else None
    lsn, ordinal = event.position
    head = b'{"key":' + (key or b"null") + b',"source":'
    source = orjson.dumps({"commit_lsn": lsn, "ordinal": ordinal})
    return Frame(LEFT, head + source + b"}", place)


def spooled_frames(reader: SpoolReader, chosen: Selection, row: int) -> tuple[list[Frame], int]:
    """Frames of some rows from ``row`` on, and the next one."""
    most = BATCH_BYTES if chosen.everything else _SCAN_BYTES
    spool, found, size = reader.spooled.id, list[Frame](), 0
    for key, value in reader.read(row, most):
        row += 1
        place = SnapshotPlace(chosen.digest, spool, row).text()
        if chosen.everything:
            found.append(Frame("row", value, place))
            continue
        frame = chosen_frame(chosen, key or None, value, place)
        if frame is not None and frame.event != LEFT:
            found.append(Frame("row", value, place))
            size += len(value)
            if size > BATCH_BYTES:
                break
    return found, row


def told(event: str, data: dict[str, Any], place: Place) -> Frame:
    return Frame(event, orjson.dumps(data), place.text())
