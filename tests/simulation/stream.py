"""The simulated source: a slot on a fixed WAL, its catalog, and the stream of one session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from struct import pack
from typing import Final

from cdc.errors import RetryableError
from cdc.lsn import format_lsn
from cdc.protocol.messages import RelationMessage, Values
from cdc.protocol.relation import Relation
from cdc.protocol.wire import Arrived
from cdc.source import relation_completion
from cdc.source.attribute_numbers import Before
from cdc.source.slot import PLUGIN, SlotState, SourceIdentity
from tests.simulation.faults import Chance
from tests.simulation.wal import FIRST_LSN, TABLES, Entry
from tests.support.events.transcribed import describe, frame, relation

IDENTITY: Final = SourceIdentity("1", 1, "db")
SLOT_LSN: Final = FIRST_LSN - 500
"""Where the slot was made."""
AHEAD: Final = "the slot is told more than a mark says"
_READS: Final = (1, 3, 10, 40, 200)
"""Frames that one read of the connection brings."""


class Source:
    """A server with one slot. ``marked`` gives what Kafka's newest mark lets it be told."""

    def __init__(self, wal: Sequence[Entry], marked: Callable[[], int]) -> None:
        self.wal = wal
        self.confirmed = SLOT_LSN
        self.sessions = 0
        self._marked = marked

    @property
    def end(self) -> int:
        return self.wal[-1].end

    def confirm(self, lsn: int) -> None:
        """Feedback has arrived."""
        assert lsn <= self._marked(), f"{AHEAD}: {lsn}, the mark says {self._marked()}"
        self.confirmed = max(self.confirmed, lsn)

    def slot(self) -> SlotState:
        at = self.confirmed
        return SlotState(
            "h", PLUGIN, IDENTITY.database, False, None, at, at, "reserved", None, None, False
        )

    @contextmanager
    def asking(self, _dsn: str) -> Iterator[Catalog]:
        """In place of ``cdc.source.bounded_query.asking``."""
        yield Catalog(self.end)


class Catalog:
    """Answers the three questions that are asked in SQL: the tables, the WAL's end, and whether a
    treatment was ever recorded (none was)."""

    def __init__(self, wal_end: int) -> None:
        self._answer: tuple[str] | None = (format_lsn(wal_end),)

    def execute(self, query: str, _parameters: object = None) -> Catalog:
        if "treated_column" in query:
            self._answer = None
        return self

    def fetchall(self) -> list[tuple[str, str]]:
        return [("public", table) for table in TABLES.values()]

    def fetchone(self) -> tuple[str] | None:
        return self._answer


class Stream:
    """In place of ``cdc.source.replication.ReplicationStream``: a session from ``start_lsn`` on."""

    pid = 1

    def __init__(self, source: Source, chance: Chance, start_lsn: int) -> None:
        self._source = source
        self._chance = chance
        self._frames = list(self._sent(max(start_lsn, source.confirmed)))
        source.sessions += 1

    def receive(self, limit: int) -> Arrived:
        count = min(limit, self._chance.rng.choice(_READS))
        arrived, self._frames = self._frames[:count], self._frames[count:]
        if self._chance.strikes(self._chance.faults.lost_read):
            raise RetryableError("the connection was lost")
        return Arrived.of(arrived)

    def feedback(self, received: int, confirmed: int, _now_us: int, ask: bool) -> None:  # noqa: ARG002
        assert confirmed <= received
        if not self._chance.strikes(self._chance.faults.lost_feedback):
            self._source.confirm(confirmed)

    def close(self) -> None:
        """Nothing to let go of."""

    def _sent(self, start_lsn: int) -> Iterator[bytes]:
        """What the server sends: each table is described ahead of its first row."""
        described: set[int] = set()
        at = start_lsn
        for entry in self._source.wal:
            if entry.start < start_lsn:
                continue
            for change in entry.changes:
                for oid in change.tables:
                    if oid not in described:
                        described.add(oid)
                        yield frame(describe(TABLES[oid], oid), 0)
                yield change.frame
            at = entry.end
            if self._chance.strikes(0.15):
                yield _keepalive(at)
        yield _keepalive(at)


class Describer(relation_completion.Describer):
    """In place of the real one, whose signatures it has: the row that is looked up is always
    gone."""

    def __init__(
        self,
        _dsn: str,
        _keys: object,
        described: Callable[[Relation], None],
        _publication: str,
        _excluded: object,
    ) -> None:
        self._described = described

    def resolve(self, message: RelationMessage, before: Before | None = None) -> Relation:  # noqa: ARG002
        found = relation(message)
        self._described(found)
        return found

    def sees(self, _xid: int) -> bool:
        return True

    def lookup(self, _relation: Relation, _key: Values) -> Values | None:
        return None

    def close(self) -> None:
        """Nothing to let go of."""


def _keepalive(wal_end: int) -> bytes:
    return b"k" + pack(">QqB", wal_end, 0, 0)
