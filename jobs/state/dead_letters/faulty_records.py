"""Records that no mirror could take: parked with their keys, so that all others go on.

The mirror keeps the row's last good version. A later record of the key that has every value, or
deletes the row, ends that: it needs nothing of those before it. One that leaves values out is
faulty itself, for the values that it leaves out may be those that were refused.

A history of the table needs every change: what it lacks waits until a command applies it or gives
it up, whether the mirror has gone on since or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from cdc.errors import LogError
from jobs.state.batch.staging import Fault, Record
from jobs.state.server.connection import Connection

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
        for table, key in self._conn.execute(
            b"select m.schema || '.' || m.name, f.key from headwater.faulty_records f "
            b"join headwater.mirrors m on m.id = f.mirror_id where f.of_mirror"
        ):
            self._held.setdefault(table, set()).add(key)

    @property
    def any(self) -> bool:
        """Whether there are some."""
        return any(self._held.values())

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
                at = ids[record.table], key
                self._conn.execute(
                    b"delete from headwater.faulty_records "
                    b"where mirror_id = %s and key = %s and not of_history",
                    at,
                )
                self._conn.execute(
                    b"update headwater.faulty_records set of_mirror = false "
                    b"where mirror_id = %s and key = %s",
                    at,
                )
        for fault in faults:
            self._note(ids, fault)
        if (held := sum(map(len, self._held.values()))) > at_most and faults:
            raise _too_many(held, "keys of the log cannot be applied", faults[0], at_most)

    def note_of_histories(self, ids: dict[str, int], faults: Sequence[Fault], at_most: int) -> None:
        """Note what a history could not be given, in the batch's transaction. Raises ``LogError``
        beyond ``at_most`` records."""
        if not faults:
            return
        for fault in faults:
            self._note(ids, fault, of_mirror=False)
        query = b"select count(*) from headwater.faulty_records where of_history"
        (held,) = self._conn.execute(query).fetchone() or (0,)
        if held > at_most:
            raise _too_many(held, "changes cannot be put into a history", faults[0], at_most)

    def _note(self, ids: dict[str, int], fault: Fault, of_mirror: bool = True) -> None:
        record = fault.record
        if of_mirror:
            self._held.setdefault(record.table, set()).add(record.key or "")
        self._conn.execute(
            b"insert into headwater.faulty_records as f "
            b"(mirror_id, key, record, cause, of_mirror, of_history) "
            b"values (%s, %s, %s, %s, %s, %s) on conflict (mirror_id, key, record) do update "
            b"set of_mirror = f.of_mirror or excluded.of_mirror, "
            b"of_history = f.of_history or excluded.of_history",
            (
                ids[record.table],
                record.key or "",
                record.record,
                fault.cause,
                of_mirror,
                not of_mirror,
            ),
        )


def forget_table(conn: Connection, mirror_id: int) -> None:
    """What waits of a table waits no more: Kafka has none of it; in the caller's transaction."""
    conn.execute(b"delete from headwater.faulty_records where mirror_id = %s", (mirror_id,))


def faulty_records(conn: Connection) -> list[FaultyRecord]:
    """All of them, those that wait longest first."""
    rows = conn.execute(
        b"select m.schema || '.' || m.name, f.key, f.record, f.cause, f.since "
        b"from headwater.faulty_records f join headwater.mirrors m on m.id = f.mirror_id "
        b"order by f.since, f.record"
    )
    return [FaultyRecord(*row) for row in rows]


def _too_many(held: int, what: str, first: Fault, at_most: int) -> LogError:
    return LogError(
        f"{held} {what}, and apply.dlq_limit is {at_most}: {first.record.record}: {first.cause}",
        "correct their common cause, or raise the limit",
    )
