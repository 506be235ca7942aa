"""Real Debezium, run beside our capture on the same tables: what it emits is the oracle.

``debezium`` runs the connector (``stack.debezium``); ``events`` reads what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import psycopg
from kafka import KafkaConsumer, TopicPartition
from psycopg import conninfo

from stack.debezium import Worker, worker
from tests.support.waiting import wait_until

_START_TIMEOUT_S = 180
_HEAP = ("-Xms64m", "-Xmx512m")


class Event(NamedTuple):
    """One record as Debezium wrote it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


@contextmanager
def debezium(
    dsn: str,
    bootstrap: str,
    prefix: str,
    publication: str,
    directory: Path,
    settings: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Debezium streaming ``publication`` to topics that begin with ``prefix``, which also names
    its slot. It streams when the body begins."""
    with (
        worker(bootstrap, directory, _HEAP) as running,
        connected(running, dsn, prefix, publication, settings or {}),
    ):
        yield


@contextmanager
def connected(
    running: Worker, dsn: str, prefix: str, publication: str, settings: Mapping[str, str]
) -> Iterator[None]:
    """The same on a worker that runs."""
    with running.connector(prefix, _url(dsn), publication, settings):
        wait_until(
            lambda: _streams(dsn, prefix, running),
            f"Debezium to stream, see {running.log}",
            _START_TIMEOUT_S,
        )
        yield


def _url(dsn: str) -> str:
    target = conninfo.conninfo_to_dict(dsn)
    password = quote(str(target.get("password") or ""), safe="")
    at = f"{target['host']}:{target['port']}/{target['dbname']}"
    return f"postgresql://{target['user']}:{password}@{at}"


def _streams(dsn: str, slot: str, running: Worker) -> bool:
    running.check(slot)
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select 1 from pg_replication_slots where slot_name = %s and active", [slot]
        )
        return found.fetchone() is not None


def events(bootstrap: str, prefix: str, counts: Mapping[str, int]) -> list[Event]:
    """Everything in the topics named, once each holds as many records as ``counts`` says.

    In the order of the topics, then of their only partition.
    """
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partitions = {TopicPartition(f"{prefix}.{topic}", 0): n for topic, n in counts.items()}

    def complete() -> bool:
        existing = consumer.topics()
        known = [partition for partition in partitions if partition.topic in existing]
        ends = consumer.end_offsets(known) if known else {}
        missing = [p.topic for p, count in partitions.items() if ends.get(p, 0) < count]
        assert not missing, f"incomplete: {', '.join(missing)}"
        return True

    try:
        wait_until(complete, "Debezium's events", 120)
        return [event for partition in partitions for event in _read(consumer, partition)]
    finally:
        consumer.close()


def _read(consumer: KafkaConsumer, partition: TopicPartition) -> Iterator[Event]:
    end = consumer.end_offsets([partition])[partition]
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    while consumer.position(partition) < end:
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                yield Event(record.topic, record.key, record.value, list(record.headers))
