"""Real Debezium, run beside our capture on the same tables: what it emits is the oracle.

``debezium`` runs the connector in Kafka Connect (standalone) with the modes whose events ours
follow; ``events`` reads what it wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
from kafka import KafkaConsumer, TopicPartition
from psycopg import conninfo

from stack import process
from stack.jvm import java_command
from stack.ports import HOST, free_port
from tests.waiting import wait_until

_START_TIMEOUT_S = 90
_HEAP = ("-Xms64m", "-Xmx512m")
_WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "offset.flush.interval.ms": "1000",
}
_CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "disabled",
    "snapshot.mode": "no_data",
    "skipped.operations": "none",
    "decimal.handling.mode": "string",
    "time.precision.mode": "isostring",
    "interval.handling.mode": "string",
    "binary.handling.mode": "base64",
    "poll.interval.ms": "50",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
}


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
    target = conninfo.conninfo_to_dict(dsn)
    connector = {
        **_CONNECTOR,
        "name": prefix,
        "topic.prefix": prefix,
        "slot.name": prefix,
        "publication.name": publication,
        "database.hostname": target["host"],
        "database.port": target["port"],
        "database.user": target["user"],
        "database.password": target.get("password", "unused"),
        "database.dbname": target["dbname"],
        **(settings or {}),
    }
    worker = {
        **_WORKER,
        "bootstrap.servers": bootstrap,
        "offset.storage.file.filename": directory / "offsets",
        "listeners": f"http://{HOST}:{free_port(set())}",
    }
    files = [_write(directory / "worker", worker), _write(directory / "connector", connector)]
    command = java_command(directory, "debezium", _HEAP)
    command += ["org.apache.kafka.connect.cli.ConnectStandalone", *files]
    log = directory / "debezium.log"
    running = process.spawn(command, log, directory, os.environ)
    try:
        wait_until(
            lambda: _streams(dsn, prefix, running, log),
            f"Debezium to stream, see {log}",
            _START_TIMEOUT_S,
        )
        yield
    finally:
        process.kill(running)


def _write(path: Path, properties: Mapping[str, object]) -> str:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)


def _streams(dsn: str, slot: str, running: process.Process, log: Path) -> bool:
    if not process.alive(running):
        raise RuntimeError(f"Debezium ended:\n{log.read_text()[-4000:]}")
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
