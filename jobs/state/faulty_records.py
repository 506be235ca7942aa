"""Records that no mirror could take: parked with their keys, so that all others go on.

The mirror keeps the row's last good version. A later record of the key that has every value, or
deletes the row, ends that: it needs nothing of those before it. One that leaves values out is
faulty itself, for the values that it leaves out may be those that were refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from cdc.errors import LogError
from jobs.state.connection import Connection
from jobs.state.staging import Fault, Record

_BEHIND: Final = "it leaves out a value, and an earlier record of its key could not be applied"


class FaultyRecord(NamedTuple):
    """``record`` is ``topic-partition-offset``, ``key`` the event key."""

    table: str
    key: str
    record: str
    cause: str
    since: datetime


class FaultyKeys:
    """The keys of faulty records, by table; use in one session, and read again after a rollback."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._held: dict[str, set[str]] = {}
        self.read()

    def read(self) -> None:
        """What is held now."""
        self._held = {}
        for one in faulty_records(self._conn):
            self._held.setdefault(one.table, set()).add(one.key)

    def split(self, records: Iterable[Record], faults: list[Fault]) -> Iterator[Record]:
        """Those that can be applied; ``faults`` gets those that cannot, for what came before."""
        for record in records:
            held = self._held.get(record.table)
            if held and record.unchanged and (record.key or "") in held:
                faults.append(Fault(record, _BEHIND))
            else:
                yield record

    def forget(self, keys: Iterable[tuple[str, str]]) -> None:
        """What waits of these keys, by ``schema.table`` and event key, waits no more; in the
        caller's transaction."""
        for table, key in keys:
            self._held.get(table, set()).discard(key)
            self._conn.execute(
                b"delete from headwater.faulty_records f using headwater.mirrors m "
                b"where m.id = f.mirror_id and m.schema || '.' || m.name = %s and f.key = %s",
                (table, key),
            )

    def settle(
        self,
        ids: dict[str, int],
        applied: Iterable[Record],
        faults: Sequence[Fault],
        at_most: int,
    ) -> None:
        """Note what was faulty in a batch, and forget what is over; in its transaction.

        ``ids`` are the mirrors', by table. Raises ``LogError`` beyond ``at_most`` keys.
        """
        refused = {(one.record.table, one.record.key or "") for one in faults}
        for record in applied:
            mine = self._held.get(record.table)
            key = record.key or ""
            if mine and key in mine and (record.table, key) not in refused:
                mine.discard(key)
                self._conn.execute(
                    b"delete from headwater.faulty_records where mirror_id = %s and key = %s",
                    (ids[record.table], key),
                )
        for fault in faults:
            self._note(ids, fault)
        if (held := sum(map(len, self._held.values()))) > at_most and faults:
            raise LogError(
                f"{held} keys of the log cannot be applied, and apply.dlq_limit is {at_most}: "
                f"{faults[0].record.record}: {faults[0].cause}",
                "that many are not bad rows: see what they have in common, or raise the limit",
            )

    def _note(self, ids: dict[str, int], fault: Fault) -> None:
        record = fault.record
        self._held.setdefault(record.table, set()).add(record.key or "")
        self._conn.execute(
            b"insert into headwater.faulty_records (mirror_id, key, record, cause) "
            b"values (%s, %s, %s, %s) on conflict do nothing",
            (ids[record.table], record.key or "", record.record, fault.cause),
        )


def faulty_records(conn: Connection) -> list[FaultyRecord]:
    """All of them, those that wait longest first."""
    rows = conn.execute(
        b"select m.schema || '.' || m.name, f.key, f.record, f.cause, f.since "
        b"from headwater.faulty_records f join headwater.mirrors m on m.id = f.mirror_id "
        b"order by f.since, f.record"
    )
    return [FaultyRecord(*row) for row in rows]
