"""How far a connector's topics have come: progress marks, as capture writes them.

The connector confirms to PostgreSQL what Kafka has acknowledged, up to the end of a transaction.
So everything below its slot's ``confirmed_flush_lsn`` is in Kafka, below where the topics end when
they are asked afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from cdc.config import Config
from cdc.debezium.table_shapes import describe, make_topics
from cdc.errors import HeadwaterError, SourceError
from cdc.events.mark_records import mark_records
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker
from cdc.kafka.bulk_producer import BulkProducer
from cdc.log_events import LogEvent
from cdc.lsn import parse_lsn
from cdc.source import postgres
from cdc.source.catalog import captured_tables
from cdc.source.errors import translated
from cdc.source.position import current_lsn, nudge
from cdc.source.slot import identify
from cdc.topics import progress_topic, table_topic

_LOOK_S: Final = 0.5
_TABLES_S: Final = 5.0
_AGAIN_S: Final = 2.0
_CONFIRMED: Final = """
select confirmed_flush_lsn::text from pg_catalog.pg_replication_slots where slot_name = %s
"""

log = structlog.get_logger("apply")


@contextmanager
def tracked(config: Config) -> Iterator[None]:
    """Write marks and describe tables until the block ends, on a thread; once before it begins.
    Where no connector fills the topics there is nothing to do.

    Raises what the source and Kafka answer the first time.
    """
    if not config.source.of_debezium:
        yield
        return
    tracker = Tracker(config)
    tracker.look()
    over = threading.Event()
    thread = threading.Thread(target=tracker.run, args=[over], name="connector", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_AGAIN_S)
        tracker.close()


class Tracker:
    """Sessions with the source and Kafka that ``look`` opens and an error closes. For one thread at
    a time."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._conn: postgres.Connection | None = None
        kafka = config.kafka
        self._broker = Broker(kafka.bootstrap_servers, kafka)
        self._producer: BulkProducer | None = None
        self._topics: list[str] = []
        self._confirmed = -1
        self._described_s = self._moved_s = 0.0

    def run(self, over: threading.Event) -> None:
        """Look again and again; a server that is away is tried again."""
        wait_s = _LOOK_S
        while not over.wait(wait_s):
            try:
                self.look()
                wait_s = _LOOK_S
            except HeadwaterError as error:
                log.warning(LogEvent.CONNECTOR_NOT_FOLLOWED, error=str(error))
                self.close()
                wait_s = _AGAIN_S

    def look(self) -> None:
        """Once: describe tables if it is time, write a mark if the connector has come further."""
        kafka, source, now_s = self._config.kafka, self._config.source, time.monotonic()
        if self._conn is None or self._producer is None:
            self._conn = postgres.connect(source.dsn, application_name="headwater apply")
            make_topics(self._config, self._broker)
            self._producer = BulkProducer(kafka.bootstrap_servers, security=kafka)
            self._described_s = 0.0
        if now_s - self._described_s >= _TABLES_S or not self._described_s:
            describe(self._config, self._conn, self._broker, self._producer)
            names = [(one.schema, one.name) for one in captured_tables(self._conn, source)]
            self._topics = [table_topic(source.name, *name) for name in names]
            self._described_s = now_s
        confirmed = self._slot_confirmed(self._conn)
        if confirmed == self._confirmed:
            self._hurry(self._conn, now_s)
            return
        ends = self._broker.end_offsets(sorted(self._broker.partitions(self._topics)))
        here = identify(self._conn)
        mark = Mark(
            confirmed, ends, here.system_id, here.timeline, here.database, source.slot_name,
            topic_ids=self._broker.topic_ids(sorted(ends)), form=self._config.form.recorded,
        )  # fmt: skip
        now_ms, topic = time.time_ns() // 1_000_000, progress_topic(source.name)
        records = mark_records(mark, source.name, now_ms, self._producer.largest_record)
        self._producer.send_records(topic, records)
        self._producer.flush()
        self._confirmed, self._moved_s = confirmed, now_s

    def close(self) -> None:
        """Release connections. The next look would connect again."""
        if self._conn is not None:
            self._conn.close()
        if self._producer is not None:
            self._producer.close()
        self._broker.close()
        self._conn = self._producer = None

    def _slot_confirmed(self, conn: postgres.Connection) -> int:
        name = self._config.source.slot_name
        with translated(f"looking at slot {name}"):
            row = conn.execute(_CONFIRMED, (name,)).fetchone()
        if row is None or row[0] is None:
            raise SourceError(
                f"the source has no slot {name}, which the connector reads",
                "set source.slot to the connector's slot.name, and start the connector first",
            )
        return parse_lsn(row[0])

    def _hurry(self, conn: postgres.Connection, now_s: float) -> None:
        """A connector that has nothing to send confirms nothing, whatever else is written."""
        beat_s = self._config.capture.heartbeat_s
        if beat_s and now_s - self._moved_s >= beat_s and current_lsn(conn) > self._confirmed:
            nudge(conn)
            self._moved_s = now_s
