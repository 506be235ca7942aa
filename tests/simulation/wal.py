"""A random workload as the frames of pgoutput that PostgreSQL would send for it."""

from __future__ import annotations

import json
import random
from struct import pack
from typing import Final, NamedTuple

from cdc.events import outbox
from cdc.events.heartbeat import HEARTBEAT
from tests.support.events.transcribed import frame, row

KEYED: Final = 1
KEYLESS: Final = 2
TABLES: Final = {KEYED: "t", KEYLESS: "bare"}
"""Tables of the source in schema ``public``, by OID."""
FIRST_LSN: Final = 1000

_LONE_MESSAGES: Final = 0.12
"""Share of entries that are a message outside of any transaction."""
_SIZES: Final = (0, 1, 1, 2, 5, 12, 30)
"""Changes in a transaction. The larger ones go by column."""
_COMMIT_BYTES: Final = 40
_GAP_BYTES: Final = 64
_LARGE: Final = 900
"""How often a value is repeated to be more than the producer takes."""
_SHARES: Final = {
    "insert": 45,
    "update": 20,
    "delete": 15,
    "move": 4,
    "truncate": 2,
    "message": 3,
    "heartbeat": 3,
    "emit": 8,
}


class Change(NamedTuple):
    """One frame, and the tables that the session must have described before it."""

    frame: bytes
    tables: tuple[int, ...] = ()


class Entry(NamedTuple):
    """What the server sends as one: a transaction from BEGIN to COMMIT, or a lone message.

    It is sent to whoever asks for ``start`` or less; behind it the stream stands at ``end``.
    """

    start: int
    end: int
    changes: list[Change]


def workload(rng: random.Random, entries: int, *, large: bool) -> list[Entry]:
    """``entries`` entries in WAL order; with ``large``, some values are larger than a record."""
    writer = _Writer(rng, large)
    return [writer.entry(xid) for xid in range(1, entries + 1)]


class _Writer:
    """Writes one entry behind the other."""

    def __init__(self, rng: random.Random, large: bool) -> None:
        self._rng = rng
        self._large = large
        self._lsn = FIRST_LSN

    def entry(self, xid: int) -> Entry:
        if self._rng.random() < _LONE_MESSAGES:
            return self._lone_message(xid)
        return self._transaction(xid)

    def _lone_message(self, number: int) -> Entry:
        start, self._lsn = self._lsn, self._lsn + _GAP_BYTES
        payload = _message("note", b"%d" % number, self._lsn, transactional=False)
        return Entry(start, self._lsn, [Change(frame(payload, self._lsn))])

    def _transaction(self, xid: int) -> Entry:
        changes = [self._change(xid) for _ in range(self._rng.choice(_SIZES))]
        if self._rng.random() < 0.3:  # else the last message's LSN is the commit's
            self._lsn += _GAP_BYTES
        commit, self._lsn = self._lsn, self._lsn + _COMMIT_BYTES
        begin = b"B" + pack(">QqI", commit, 1_000_000, xid)
        end = b"C" + pack(">BQQq", 0, commit, self._lsn, 1_000_000)
        opening, closing = Change(frame(begin, commit)), Change(frame(end, self._lsn))
        return Entry(commit, self._lsn, [opening, *changes, closing])

    def _change(self, xid: int) -> Change:
        self._lsn += 8
        (kind,) = self._rng.choices(list(_SHARES), list(_SHARES.values()))
        if kind == "truncate":
            payload = b"T" + pack(">IBII", 2, 0, KEYED, KEYLESS)
            return Change(frame(payload, self._lsn), (KEYED, KEYLESS))
        if kind in ("message", "heartbeat", "emit"):
            return Change(frame(self._logical(kind), self._lsn))
        table = self._rng.choice((KEYED, KEYED, KEYED, KEYLESS))
        return Change(frame(self._row(kind, table, xid), self._lsn), (table,))

    def _row(self, kind: str, table: int, xid: int) -> bytes:
        key, oid = b"%d" % self._rng.randrange(9), pack(">I", table)
        if kind == "insert":
            often = self._rng.choice((1, 1, 1, _LARGE)) if self._large else 1
            return b"I" + oid + b"N" + row(key, b"v%d" % xid * often)
        if kind == "update":
            unchanged = "u"
            return b"U" + oid + b"N" + row(key, self._rng.choice((b"w", None, unchanged)))
        if kind == "delete":
            return b"D" + oid + b"K" + row(key, None)
        return b"U" + oid + b"K" + row(key, None) + b"N" + row(b"1" + key, b"moved")

    def _logical(self, kind: str) -> bytes:
        if kind == "message":
            return _message("note", b"in a transaction", self._lsn)
        if kind == "heartbeat":
            return _message(HEARTBEAT, b"%d" % self._lsn, self._lsn)
        head = {
            "id": str(self._lsn),
            "topic": self._rng.choice("ab"),
            "key": self._rng.choice((None, "", "k1", "k2")),
            "headers": self._rng.choice((None, {"part": "x"})),  # a name of dead letters' own
            "null": self._rng.random() < 0.2,
        }
        return _message(outbox.PREFIX, json.dumps(head).encode() + b"\n{}", self._lsn)


def _message(prefix: str, content: bytes, lsn: int, *, transactional: bool = True) -> bytes:
    head = b"M" + pack(">BQ", transactional, lsn) + prefix.encode() + b"\0"
    return head + pack(">I", len(content)) + content
