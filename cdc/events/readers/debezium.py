"""Events of a Debezium connector, brought into the default form with what they lack of it. Pure.

Such an event does not say where its transaction was committed. It has the end of the transaction
before it (``source.sequence``), which rises from one transaction to the next, and its row's own
LSN, which rises within one: the two are its position. It is never above the commit LSN, and may be
below the LSN of a snapshot that lacks the transaction. Which transactions a snapshot has is told by
their numbers: where it lacks one, the snapshot's LSN takes the place of the former.

Rows of the connector's own snapshots tell nothing that the stream does not; those that are newer
than the mirror tell that the connector began anew, and that changes may be missing before them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cdc.events.codes import CREATE, SNAPSHOT, TRUNCATE, UPDATE
from cdc.events.form import Form
from cdc.events.readers.left_out import left_out_sign, may_be_left_out
from cdc.events.readers.records import (
    FAULTS,
    UNREADABLE,
    Columns,
    Version,
    dumped,
    payload,
    version_of,
)

BEGUN_ANEW: Final = "snapshot of the connector"
"""As the ``schema_id`` of rows of a snapshot that the connector took."""
OTHER_COLUMNS: Final = "columns "
"""How the ``schema_id`` of events begins whose columns are those of no version that is known."""
_XIDS: Final = 1 << 32


class TableShape(NamedTuple):
    """A version of a table, as the source's catalog had it at ``lsn``."""

    schema_id: str
    columns: Columns
    key: Sequence[str]
    lsn: int
    lost: Mapping[str, str] = {}
    """Columns whose values events do not have exactly, each with the reason."""


class Snapshot(NamedTuple):
    """What a mirror was filled from: its LSN, and the transactions that it has. ``xmax`` is the
    first that had not begun, ``running`` are those that had not ended, as 64-bit numbers."""

    lsn: int
    xmax: int
    running: Collection[int]

    def has(self, xid: int) -> bool:
        """Whether it has a transaction, of which an event tells 32 bits."""
        behind = (self.xmax - xid) % _XIDS
        if behind == 0 or behind > _XIDS // 2:
            return False
        return self.xmax - behind not in self.running


def parse_snapshot(lsn: int, text: str) -> Snapshot:
    """``xmin:xmax:xip,xip``, as ``pg_current_snapshot`` gives it."""
    _, xmax, running = text.split(":")
    return Snapshot(lsn, int(xmax), frozenset(map(int, filter(None, running.split(",")))))


def connector_lsn(source: Mapping[str, Any]) -> int:
    """Of an event's ``source``, an LSN that its transaction was not committed below."""
    before, lsn = json.loads(source["sequence"])
    return int(before or lsn or 0)


class OtherColumnsError(Exception):
    """An event has columns that no known version of its table has."""

    def __init__(self, lsn: int, names: Collection[str]) -> None:
        super().__init__(f"columns {', '.join(sorted(names))} at {lsn}")
        self.lsn, self.names = lsn, frozenset(names)


class DebeziumRecords:
    """Reads the records of one table's topic. ``snapshot`` is that of its mirror, if it has one."""

    def __init__(
        self, form: Form, shapes: Sequence[TableShape], snapshot: Snapshot | None = None
    ) -> None:
        """``shapes`` in the order of their ``lsn``."""
        self._form, self._shapes, self._snapshot = form, shapes, snapshot
        self._known: dict[frozenset[str], _Known] = {
            frozenset(one.columns): _known(form, one) for one in shapes
        }

    def record(
        self, key: bytes | None, value: bytes | None, *, is_certain: bool = False
    ) -> tuple[bytes | None, bytes | None]:
        """Key and value in the default form; of a tombstone as they are. Raises
        ``OtherColumnsError`` unless ``is_certain``: all versions are known up to the event."""
        if value is None:
            return key, None
        own_key = key
        try:
            event = payload(value)
            source, op = event["source"], event["op"]
            if op == TRUNCATE:
                source["schema_id"] = self._shapes[-1].schema_id
            else:
                known = self._of(event, is_certain)
                if isinstance(known, str):
                    source["schema_id"] = known
                else:
                    known.read(event, op)
                    if key is not None:
                        own_key = dumped(known.version.row(_key(key, known), ()))
            _place(source, op, self._snapshot)
            return own_key, dumped(event)
        except FAULTS:
            return key, UNREADABLE + value

    def _of(self, event: Mapping[str, Any], is_certain: bool) -> _Known | str:
        names = frozenset(event["before"] if event["after"] is None else event["after"])
        if (found := self._known.get(names)) is not None:
            return found
        if not is_certain:
            raise OtherColumnsError(int(event["source"]["lsn"]), names)
        return OTHER_COLUMNS + ",".join(sorted(names))


class _Known(NamedTuple):
    """``told_by``: what stands for a value of a column that was left out; ``null`` are columns that
    are null then, and never else."""

    schema_id: str
    key: frozenset[str]
    version: Version
    told_by: Mapping[str, Any]
    null: Sequence[str]

    def read(self, event: dict[str, Any], op: str) -> None:
        """In place."""
        before, after, source = event["before"], event["after"], event["source"]
        source["schema_id"] = self.schema_id
        if op in (CREATE, UPDATE) and (unchanged := self._left_out(after)):
            source["unchanged"] = unchanged
        if before is not None:  # beside the key it may have what the row never had
            event["before"] = self.version.row({name: before[name] for name in self.key}, ())
        if after is not None:
            left_out = source.get("unchanged", ())
            self.version.refuse_lost(after, left_out)
            event["after"] = self.version.row(after, left_out)

    def _left_out(self, image: Mapping[str, Any]) -> list[str]:
        found = [name for name, sign in self.told_by.items() if image[name] == sign]
        return found + [name for name in self.null if image[name] is None]


def _known(form: Form, shape: TableShape) -> _Known:
    told_by, null = dict[str, Any](), list[str]()
    for name, kind in shape.columns.items():
        if name in shape.key or not may_be_left_out(kind):
            continue
        if (sign := left_out_sign(form, kind)) is not None:
            told_by[name] = sign
        elif not kind.nullable:
            null.append(name)
    version = version_of(form, shape.columns, shape.lost)
    return _Known(shape.schema_id, frozenset(shape.key), version, told_by, null)


def _key(key: bytes, known: _Known) -> dict[str, Any]:
    found = payload(key)
    if found.keys() != known.key:
        raise ValueError("the record has another key than its table")
    return found


def _place(source: dict[str, Any], op: str, snapshot: Snapshot | None) -> None:
    """Give ``source`` a position."""
    if op == SNAPSHOT:
        is_incremental = source["snapshot"] == "incremental"
        source["commit_lsn"], source["ordinal"] = 0 if is_incremental else int(source["lsn"]), 0
        source["schema_id"] = BEGUN_ANEW
        return
    before, lsn = json.loads(source["sequence"])
    at = int(before or 0)
    if snapshot is not None and at < snapshot.lsn and not snapshot.has(int(source["txId"])):
        at = snapshot.lsn
    source["commit_lsn"], source["ordinal"] = at, int(lsn)
