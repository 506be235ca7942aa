"""Whether a snapshot is exact, by the stream alone.

history   every image of every key, from the topic that capture writes: the truth at any LSN
each row  read at L is the key's image as of the changes with commit LSN < L
the end   rows, then the stream from the smallest L on, the greater position winning, give the
          source's table; a large value that an update left out was always there
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.support.commands.deployment import Event

LARGE: Final = "big"
"""The column that stands in TOAST."""
Row = dict[str, Any]
Position = tuple[int, int]


class Version(NamedTuple):
    """An image of a key from a position on; None: it was deleted."""

    position: Position
    row: Row | None


def history(events: Sequence[Event]) -> dict[str, list[Version]]:
    """Every version of each key, in order, large values filled in.

    Of a row whose key changed capture asks the source, which may answer with a later value: here
    it is taken from the row that the delete before was of.
    """
    versions: dict[str, list[Version]] = {}
    moved = Version((0, 0), None)
    for event in sorted(changes(events), key=lambda event: event.position):
        of_key = versions.setdefault(key_of(event), [])
        before = of_key[-1].row if of_key else None
        row = _image(event, before)
        if row is not None and _is_moved(event, row, moved):
            row[LARGE] = moved.row[LARGE] if moved.row else None
        of_key.append(Version(event.position, row))
        moved = Version(event.position, before if row is None else None)
    return versions


def _is_moved(event: Event, row: Row, deleted: Version) -> bool:
    """Whether a create is the other half of the delete just before it: all else is the same."""
    assert event.value is not None
    lsn, ordinal = deleted.position
    if event.value["op"] != "c" or event.position != (lsn, ordinal + 1) or deleted.row is None:
        return False
    kept = row.keys() - (event.key or {}).keys() - {LARGE}
    return all(row[column] == deleted.row[column] for column in kept)


def changes(events: Sequence[Event]) -> list[Event]:
    """Without tombstones and truncates."""
    return [event for event in events if event.value and event.value["op"] != "t"]


def key_of(event: Event) -> str:
    return json.dumps(event.key, sort_keys=True)


def as_of(versions: Sequence[Version], lsn: int) -> Row | None:
    """The image that the changes with commit LSN below ``lsn`` make."""
    found = None
    for version in versions:
        if version.position[0] < lsn:
            found = version.row
    return found


def differing_rows(snapshot: Sequence[Event], truth: Mapping[str, list[Version]]) -> list[str]:
    """Rows of a snapshot that are not what the truth says at their LSN."""
    findings = []
    for event in changes(snapshot):
        assert event.value is not None
        lsn, row = event.position[0], event.value["after"]
        if not _same(row, as_of(truth.get(key_of(event), ()), lsn)):
            findings.append(f"{key_of(event)} at {lsn} is not what the stream says")
    return findings


def missing_rows(
    snapshot: Sequence[Event], truth: Mapping[str, list[Version]], lsn: int
) -> list[str]:
    """Keys that are there at the last LSN and have not their image of then in the snapshot."""
    newest: dict[str, Event] = {}
    for event in changes(snapshot):
        held = newest.get(key_of(event))
        if held is None or event.position >= held.position:
            newest[key_of(event)] = event
    findings = []
    for key, versions in truth.items():
        row = as_of(versions, lsn)
        if row is None:
            continue
        found = newest.get(key)
        if found is None or found.value is None or not _same(found.value["after"], row):
            findings.append(f"{key} as of {lsn} is {'wrong' if found else 'missing'}")
    return findings


def loaded(
    snapshot: Sequence[Event], stream: Sequence[Event], points: Sequence[int]
) -> tuple[dict[str, Row], list[str]]:
    """The table that a view holds which loads the snapshot and streams from the first of its LSNs
    on, and the updates whose large values it could not have had.

    An update of a row that is not held, below the last LSN, is passed over: the row was gone
    before it could be read, and its delete is still to come.
    """
    void = truncated(snapshot)
    store: dict[str, Version] = {}
    for event in sorted(changes(snapshot), key=lambda event: event.position):
        if event.position > void and event.value:
            store[key_of(event)] = Version(event.position, event.value["after"])
    findings = []
    for event in sorted(changes(stream), key=lambda event: event.position):
        if event.position[0] < points[0] or event.position[1] == 0:
            continue
        held = store.get(key_of(event))
        if (held is not None and event.position <= held.position) or event.position <= void:
            continue
        row = _image(event, held.row if held else None)
        if row is not None and _UNKNOWN in row.values():
            if event.position[0] < points[-1]:
                continue
            findings.append(f"{key_of(event)}: nobody has the large value of {event.position}")
        store[key_of(event)] = Version(event.position, row)
    return {key: v.row for key, v in store.items() if v.row is not None}, findings


def differing_bag(snapshot: Sequence[Event], stream: Sequence[Event]) -> list[str]:
    """For a table without a key: all rows are of one LSN, and each is there as often as then."""
    void = truncated(snapshot)
    rows = [event for event in changes(snapshot) if event.position > void]
    lsns = {event.position[0] for event in rows}
    if len(lsns) != 1:
        return [f"rows without a key are of {len(lsns)} LSNs"]
    if bag(rows) == bag(event for event in changes(stream) if event.position[0] < min(lsns)):
        return []
    return [f"rows without a key as of {min(lsns)} are not what the stream says"]


def bag(events: Iterable[Event]) -> Counter[str]:
    """The rows of a table without a key, each as often as it is there; FULL gives the old rows."""
    rows: Counter[str] = Counter()
    for event in events:
        assert event.value is not None
        if event.value["op"] in "ud":
            rows[json.dumps(event.value["before"])] -= 1
        if event.value["op"] in "cur":
            rows[json.dumps(event.value["after"])] += 1
    return +rows


def truncated(events: Sequence[Event]) -> Position:
    """The position of the newest truncate: what stands at or below it is void."""
    found = [e.position for e in events if e.value and e.value["op"] == "t"]
    return max(found, default=(0, 0))


_UNKNOWN = object()
_GONE = object()
"""Of a row whose key changed: it was gone before capture could ask for it. Its delete follows."""


def _same(row: Row | None, known: Row | None) -> bool:
    """Whether a row of the snapshot is the stream's, as far as the stream knows it."""
    if row is None or known is None:
        return row is known
    told = {column for column, value in known.items() if value is not _GONE}
    return row.keys() == known.keys() and all(row[c] == known[c] for c in told)


def _image(event: Event, before: Row | None) -> Row | None:
    assert event.value is not None
    if event.value["after"] is None:
        return None
    row: Row = dict(event.value["after"])
    for column in event.value["source"].get("unchanged", ()):
        if before is not None:
            row[column] = before[column]
        else:
            row[column] = _UNKNOWN if event.value["op"] == "u" else _GONE
    return row
