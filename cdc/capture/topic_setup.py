"""Topics that come up while capture runs: of a table that joined, of emitted events.

Each is created, and named by a progress mark that Kafka has acknowledged, before the first record
goes to it: after a crash, what stands in a topic that no mark names would be published again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from cdc.capture.ddl_trigger import DdlTrigger
from cdc.capture.other_sources import OtherSources
from cdc.capture.routed_tables import (
    PUBLISHED,
    refuse_topics_of_others,
    topics_that_name_sources,
)
from cdc.config import Config
from cdc.errors import LogError, SourceError
from cdc.events.capture_dead_letters import DeadLetters
from cdc.events.transactions import Ledger
from cdc.kafka.broker import Broker, TopicSpec
from cdc.kafka.producer import Producer
from cdc.kafka.topology import UNTIL_DELETED, event_settings
from cdc.log_events import LogEvent
from cdc.lsn import Position, format_lsn
from cdc.protocol.relation import Relation
from cdc.registry.schemas import SchemaRegistry, values_of
from cdc.routes.faults import changed_places, route_faults
from cdc.routes.route import Place
from cdc.source.bounded_query import asking
from cdc.source.errors import translated
from cdc.topics import ddl_topic, dead_letters_topic, outbox_topic, schemas_topic

log = structlog.get_logger("capture")


class Topics:
    """The topics of one run of capture. ``partitions`` holds the number of each one's.

    ``record`` is told of a topic and where its partitions end, writes a mark that names all
    topics, and returns when Kafka has it.
    """

    def __init__(
        self,
        config: Config,
        broker: Broker,
        producer: Producer,
        record: Callable[[str, dict[int, int]], None],
        registry: SchemaRegistry | None = None,
    ) -> None:
        self.partitions: dict[str, int] = {}
        self.cut_records = 0
        """Records that became dead letters."""
        self.routed: dict[str, Mapping[str, Any]] = {}
        """Where tables are that a route puts elsewhere than their names say, as in a mark."""
        self.joined: set[str] = set()
        """Those of them that are known to be published."""
        self._config = config
        self._broker = broker
        self._producer = producer
        self._record = record
        self._registry = registry
        self._outbox: dict[str, str | None] = {}
        self._tables: set[str] | None = None
        self._described: dict[str, str] = {}
        self._of_rows = set[str]()  # second topics of tables
        self._partitions_of_tables = set[str]()
        self._trigger = DdlTrigger(config.source.dsn)
        self._others = OtherSources(config.source.dsn, config.source.name)
        # Who reads a row before Kafka shows its version would take it for no event of ours.
        producer.leading.add(schemas_topic(config.source.name))

    def open(
        self, topic: str, partitions: int = 0, settings: Mapping[str, str] | None = None
    ) -> bool:
        """Make a topic ready, of as many partitions or those of ``[kafka]``; whether that created
        it."""
        if topic in self.partitions:
            return False
        kafka = self._config.kafka
        config = event_settings(kafka) | dict(settings or {})
        count = partitions or kafka.partitions
        spec = TopicSpec(topic, count, kafka.replication_factor, config)
        created = bool(self._broker.create_topics([spec]))
        if not created and topic in topics_that_name_sources(self.routed):
            refuse_topics_of_others(self._config, self._broker, [topic], values_of(self._registry))
        ends = self._broker.end_offsets([topic])[topic]
        self._producer.next_offsets[topic] = dict(ends)
        self._record(topic, ends)
        self.partitions[topic] = len(ends)
        return created

    def described(self, relation: Relation) -> None:
        """The server names a table. Rows need not follow: it names partitions beside their root."""
        place = self._config.source.place(relation.schema, relation.table)
        self._described[place.topic] = relation.name
        self._of_rows.update(place.topics[1:])
        if place.route < 0:
            self.routed.pop(relation.name, None)
            self._refuse_among_rows(relation, place)
        elif relation.name not in self.joined:
            self._join(relation, place)
        else:
            self.routed[relation.name] = place.recorded
        if self._tables is not None:
            self._tables.update(place.topics)

    def _refuse_among_rows(self, relation: Relation, place: Place) -> None:
        """Raise ``SourceError`` for a table without a route that came up where others have their
        rows beside events; a partition is not published itself."""
        source = self._config.source
        if not any(route.rows_topic for route in source.routing):
            return
        tables, named = self._published(), (relation.schema, relation.table)
        if named in tables and place.topic in source.rows_topics(tables).values():
            for fault in route_faults(source.name, source.routing, tables):
                raise SourceError(fault, "stop capture, correct it, and start capture")

    def _join(self, relation: Relation, place: Place) -> None:
        """A table came up where its route puts it, perhaps beside others. Raises ``SourceError``
        where it must not; a partition is not published itself."""
        if relation.name in self._partitions_of_tables:
            return
        source, tables = self._config.source, self._published()
        if (relation.schema, relation.table) not in tables:
            self._partitions_of_tables.add(relation.name)
            return
        for fault in route_faults(source.name, source.routing, tables):
            raise SourceError(fault, "stop capture, correct it, and start capture")
        held = [topic for topic, of in self._producer.next_offsets.items() if any(of.values())]
        named = [(relation.schema, relation.table)]
        if found := changed_places(source.name, source.routing, named, self.routed, held):
            raise LogError(*found)
        self.routed[relation.name] = place.recorded
        self.joined.add(relation.name)
        if place.topic in self.partitions:
            _warn_joined(relation.name)

    def count(self, topic: str) -> int:
        """The number of partitions of a topic that records go to; it is made ready if need be: a
        table that joined the publication after init needs its topic before its rows."""
        if self.open(topic) and topic not in self._of_rows:
            _warn_joined(self._described.get(topic, topic))
        return self.partitions[topic]

    def outbox(self, topic: str) -> str | None:
        """Kafka's topic for events emitted to ``topic``, ready; None when neither the configuration
        nor a mark names it, for any role may write such messages, or when a table has it. One that
        a mark names has events: an earlier version took any topic, and more may be in WAL."""
        name = outbox_topic(self._config.source.name, topic)
        if topic not in self._config.capture.emit_topics and name not in self.partitions:
            return None
        if topic not in self._outbox:
            if name.replace(".", "_") in {t.replace(".", "_") for t in self._table_topics()}:
                log.error(LogEvent.EMITTED_TO_TABLE_TOPIC, topic=name, reason="not published")
                self._outbox[topic] = None
            else:
                self.open(name)
                self._outbox[topic] = name
        return self._outbox[topic]

    def is_others(self, topic: str) -> bool:
        """See ``cdc.events.outbox.Outbox``."""
        return self._others.publish(topic)

    def ddl(self, secret: str) -> str | None:
        """See ``cdc.events.outbox.Outbox``."""
        if not self._trigger.wrote(secret):
            if self._trigger.unreadable:
                log.error(
                    LogEvent.DDL_SECRET_UNREADABLE,
                    way_out="run the statements of `headwater check --sql`",
                )
            return None
        topic = ddl_topic(self._config.source.name)
        self.open(topic, 1, UNTIL_DELETED)
        return topic

    @property
    def hides_values(self) -> bool:
        """See ``cdc.events.outbox.Outbox``."""
        return bool(self._config.source.columns)

    def passed_over(self, lsn: int, why: str) -> None:
        """See ``cdc.events.outbox.Outbox``."""
        log.error(LogEvent.LOGICAL_MESSAGE_UNCHANGED, lsn=format_lsn(lsn), reason=why)

    def ledger(self) -> Ledger | None:
        """Counts of transactions with their topic, if they are asked for."""
        if not self._config.capture.transaction_metadata:
            return None
        ledger = Ledger(self._config.source.name, self._config.form, self._registry)
        self.open(ledger.topic, 1)
        return ledger

    def dead_letters(self) -> DeadLetters:
        """Where records go that are too large: those of rows if that is asked for, and those of
        logical messages, which any role may write, in any case."""
        rows = self._config.capture.oversized == "dead_letter"
        limit = self._producer.largest_record
        letters = DeadLetters(self._config.source.name, limit, self._cut, rows)
        if rows:
            self._open_letters()
        return letters

    def _cut(self, topic: str, position: Position, size: int) -> None:
        self._open_letters()
        self.cut_records += 1
        log.error(
            LogEvent.RECORD_TOO_LARGE,
            topic=topic,
            reason="Kafka refuses it: its pieces are in the topic of dead letters",
            position=position.hex(),
            bytes=size,
            way_out="run `headwater dead-letters list`",
        )

    def _open_letters(self) -> None:
        topic = dead_letters_topic(self._config.source.name)
        self.open(topic, 1, UNTIL_DELETED)
        self._producer.leading.add(topic)

    def _table_topics(self) -> set[str]:
        if self._tables is None:
            source = self._config.source
            self._tables = {*source.topics(self._published())}
        return self._tables

    def _published(self) -> list[tuple[str, str]]:
        source = self._config.source
        with asking(source.dsn) as conn, translated("reading the published tables"):
            return conn.execute(PUBLISHED, (source.publication_name,)).fetchall()


def _warn_joined(table: str) -> None:
    log.warning(
        LogEvent.TABLE_JOINED,
        table=table,
        reason="its earlier rows are not in Kafka",
        way_out=f"run `headwater table add {table}`",
    )
