"""A source on a real server, and the events that its snapshot publishes, kept here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from cdc.config import Kafka, Source
from cdc.errors import RetryableError
from cdc.events.envelope import SourceContext
from cdc.events.records import Header
from cdc.kafka.bulk_producer import BulkProducer
from cdc.source.catalog import captured_tables
from cdc.source.postgres import Connection
from cdc.source.publication import ensure_publication
from cdc.source.selection import Table
from cdc.source.slot import ExportedSlot, create_slot
from cdc.topics import table_topic
from snapshots import state
from snapshots.job import Job, Silent
from snapshots.ledger import Ledger
from snapshots.rounds import run


@dataclass
class Shop:
    """A source, and the events that its snapshot publishes, by topic."""

    dsn: str
    conn: Connection
    source: Source
    chunk_mb: float = 32.0
    max_age_s: float = 1800.0
    fails_after: int | None = None
    """Rows of ``public.t`` after which Kafka acknowledges nothing more, once."""
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def send(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes],
        timestamp_ms: int,
        partition: int = -1,
        headers: list[Header] | None = None,
    ) -> None:
        """What ``BulkProducer`` does."""
        del keys, timestamp_ms, partition, headers
        self.events.setdefault(topic, []).extend(json.loads(value) for value in values)

    def flush(self) -> None:
        if self.fails_after is not None and len(self.rows("t")) >= self.fails_after:
            self.fails_after = None
            raise RetryableError("Kafka is away")

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.conn.execute(statement.encode())

    def snapshot(self, *after_slot: str) -> dict[str, int]:
        """A whole snapshot, or the rest of one that failed; the statements run when it has been
        exported and nothing is read."""
        tables = captured_tables(self.conn, self.source)
        ensure_publication(self.conn, self.source.publication_name, tables)
        known = state.read_state(self.conn, self.source.name)
        if known is None:
            snapshot_id = state.begin(self.conn, self.source.name, self.source.slot_name)
        else:
            snapshot_id = known.id
        statements = list(after_slot)

        @contextmanager
        def slot() -> Iterator[ExportedSlot]:
            with create_slot(self.dsn, self.source.slot_name, temporary=True) as exported:
                self.run(*statements)
                statements.clear()
                yield exported

        def topic_of(table: Table) -> str:
            return table_topic(self.source.name, table.schema, table.name)

        job = Job(
            source=self.source,
            kafka=Kafka(bootstrap_servers="nowhere:1"),
            context=SourceContext("1", self.source.name, "db"),
            tables=lambda: captured_tables(self.conn, self.source),
            topic_of=topic_of,
            slot=slot,
            partitions={topic_of(table): 1 for table in tables},
            observer=Silent(),
            chunk_mb=self.chunk_mb,
            max_age_s=self.max_age_s,
            marked=True,
        )
        run(job, Ledger(self.conn, snapshot_id), cast("BulkProducer", self))
        return state.table_rows(self.conn, snapshot_id)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [e["after"] for e in self.events.get(f"{self.source.name}.public.{table}", [])]
