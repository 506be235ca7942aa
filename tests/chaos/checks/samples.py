"""What the slot says to be confirmed, seen beside what Kafka holds, several times a second."""

from __future__ import annotations

import threading
from typing import Final

import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cdc.lsn import parse_lsn
from tests.chaos.checks.log import Sample, client, end_offsets, topics_of
from tests.chaos.faults.capture import Target
from tests.chaos.servers.environment import connect

_EVERY_S: Final = 0.05
_ANSWER_S: Final = 2.0
_CONFIRMED: Final = (
    "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
)


class Sampler(threading.Thread):
    """First the slot is asked, then Kafka: what is confirmed by then must be there."""

    def __init__(self, target: Target, source: str) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[Sample] = []
        self._target = target
        self._source = source
        self._stop_asked = threading.Event()

    def end(self) -> list[Sample]:
        """Stop, and give what was seen."""
        self._stop_asked.set()
        self.join()
        return self.samples

    def run(self) -> None:
        """Until ``end``; servers that are away are asked again."""
        admin = AdminClient(client(self._target.setting.bootstrap))
        while not self._stop_asked.is_set():
            try:
                with connect(self._target.dsn) as conn:
                    while not self._stop_asked.wait(_EVERY_S):
                        self._sample(conn, admin)
            except (psycopg.OperationalError, KafkaException):
                self._stop_asked.wait(_EVERY_S)

    def _sample(self, conn: psycopg.Connection[tuple[object, ...]], admin: AdminClient) -> None:
        target = self._target
        before = target.eras.copy()
        row = conn.execute(_CONFIRMED, (target.slot,)).fetchone()
        if row is None or row[0] is None or target.away.is_set():
            return
        topics = topics_of(admin, self._source, _ANSWER_S)  # some come up on the way
        ends = end_offsets(admin, topics, _ANSWER_S)
        if target.away.is_set() or target.eras != before:
            return  # a broker that has just come back may not know its own end yet
        self.samples.append(Sample(parse_lsn(str(row[0])), ends, before["postgres"]))
