"""How far capture has come, and what it may confirm to PostgreSQL. Pure.

    received   the newest byte of WAL the server has sent
    published  handed to the producer
    durable    every record of every transaction up to here is acknowledged by Kafka
    confirmed  durable, and a ``__progress`` record that says so is acknowledged too

Only ``confirmed`` is ever sent to PostgreSQL as flushed. Each is an *end* LSN: all transactions
whose commit record lies below it are included. ``confirmed`` trails the record in Kafka, so a slot
can never be ahead of what Kafka says of itself; on start that is checked.

    submit(acks, end_lsn) ──acked × acks──▶ durable ──record()──recorded()──▶ confirmed

Flights become durable in the order in which they were submitted, whatever the order of the acks:
a partition that lags holds back the LSN, as it must.
"""

from __future__ import annotations

from collections import deque


class Flight:
    """Records that were handed to the producer together, and where they leave the stream."""

    __slots__ = ("end_lsn", "pending")

    def __init__(self, pending: int, end_lsn: int) -> None:
        self.pending = pending
        self.end_lsn = end_lsn


class Progress:
    """The state machine. Every LSN only goes up; a violation is a bug and asserts."""

    def __init__(self, confirmed: int) -> None:
        self.received = self.published = self.durable = self.confirmed = confirmed
        self.settled = 0
        """How many flights were acknowledged; counts also while a transaction is open."""
        self._flights: deque[Flight] = deque()

    @property
    def in_flight(self) -> bool:
        """Whether any submitted record still waits for Kafka."""
        return bool(self._flights)

    def heard(self, wal_end: int) -> None:
        """The server has sent WAL up to here."""
        self.received = max(self.received, wal_end)

    def submit(self, acks: int, end_lsn: int) -> Flight:
        """Records go to the producer, which will acknowledge so many times; with all of them the
        stream is complete up to ``end_lsn``.

        ``end_lsn`` is the end of the last *completed* transaction, so records of a transaction
        that is still open never move it past that transaction's commit. It may lie below what a
        keepalive has already completed.
        """
        assert acks > 0
        self.published = max(self.published, end_lsn)
        flight = Flight(acks, self.published)
        self._flights.append(flight)
        return flight

    def complete(self, end_lsn: int) -> None:
        """The stream is complete up to ``end_lsn`` with no record to wait for: transactions
        that touch no captured table, and keepalives outside of any transaction."""
        if end_lsn <= self.published:
            return
        self.published = end_lsn
        if self._flights:
            # What the newest flight waits for, this waits for too; so no queue grows here.
            self._flights[-1].end_lsn = end_lsn
        else:
            self.durable = end_lsn

    def settle(self) -> int:
        """Take the flights that are acknowledged, in order; the durable LSN."""
        flights = self._flights
        while flights and flights[0].pending == 0:
            end_lsn = flights.popleft().end_lsn
            self.settled += 1
            assert end_lsn >= self.durable, (end_lsn, self.durable)
            self.durable = end_lsn
        return self.durable

    def recorded(self, lsn: int) -> None:
        """A ``__progress`` record of this durable LSN is itself acknowledged."""
        assert lsn <= self.durable, (lsn, self.durable)
        self.confirmed = max(self.confirmed, lsn)
