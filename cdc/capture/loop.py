"""The capture loop: session after session, and what is known from one to the next.

One thread owns the stream, the producer and all progress. A lost connection is opened again with a
bounded backoff; the server then repeats what was not confirmed, and what this process published
already is left out.
"""

from __future__ import annotations

from collections.abc import Collection
from threading import Event
from time import monotonic
from typing import Final

import structlog

from cdc.capture.confirmation import Progress
from cdc.capture.counters import Counters
from cdc.capture.duplicate_filter import KafkaReplay, SessionReplay
from cdc.capture.guard import Guard, WalLimitError
from cdc.capture.mark_writer import MarkWriter
from cdc.capture.partition_floors import Floors, unbounded
from cdc.capture.published_versions import Attnums
from cdc.capture.reconciliation import begin, check_source, reconcile
from cdc.capture.reconnection import SLOT_WAIT_S, Reconnect
from cdc.capture.session import Edges, Session, Stop, Way
from cdc.capture.topic_setup import Topics
from cdc.capture.unheld_values import UnheldValues
from cdc.columnar.feed import ColumnarFeed
from cdc.config import Config
from cdc.errors import HeadwaterError, LogError, RetryableError
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.records import Replay
from cdc.kafka.broker import Broker
from cdc.kafka.partition_ends import read_letters, read_tails
from cdc.kafka.producer import Producer
from cdc.log_events import LogEvent
from cdc.lsn import Position, format_lsn
from cdc.protocol.messages import RelationMessage, Values
from cdc.protocol.relation import Relation
from cdc.registry.schemas import registry_of, values_of
from cdc.source.bounded_query import asking
from cdc.source.columns.treated_columns import StreamColumns
from cdc.source.relation_completion import Describer
from cdc.source.replication import ReplicationStream, SlotInUseError
from cdc.topics import dead_letters_topic

VISIBLE_S: Final = 10.0
"""How long a transaction that is decoded may stay unseen by others."""

log = structlog.get_logger("capture")


class Capture:
    """One run of capture, from reconciliation to a clean stop."""

    def __init__(self, config: Config, version: str) -> None:
        self._config = config
        self._source = config.source
        self._broker = Broker(config.kafka.bootstrap_servers, config.kafka)
        registry = registry_of(config)
        self._read = values_of(registry)
        # Early, so that what cannot work is refused at once.
        try:
            start = begin(config, self._broker, self._read)
        except HeadwaterError:
            self._broker.close()
            raise
        here, form = start.identity, config.form
        self._unheld = UnheldValues()
        self._context = SourceContext(
            version, self._source.name, here.database, form, registry, self._unheld
        )
        self._way = Way(Progress(start.mark.confirmed), Position(0, 0))
        self._held: KafkaReplay | None = None
        self._producer = Producer(
            config.kafka.bootstrap_servers,
            config.kafka.producer,
            config.capture.queue_mb << 20,
            config.kafka,
        )
        self._guard = Guard(config, start.mark.heartbeat_ms)
        self._recorder = MarkWriter(config, here, self._producer, self._guard.pulse)
        self._reconnect = Reconnect(config.capture.reconnect_s, config.capture.silence_s)
        self._topics = Topics(config, self._broker, self._producer, self._record_topics, registry)
        self._columns = StreamColumns(self._source)
        self._describer = Describer(
            self._source.dsn,
            self._source.keys,
            self._topics.described,
            self._source.publication_name,
            self._columns,
        )
        self._attnums = Attnums(self._broker, self._source.name)
        self._open: Session | None = None
        self._sender = 0
        self.streaming = False
        """Whether a session is past its beginning."""
        self._trouble = "it has not connected to the source yet"

    @property
    def counters(self) -> Counters:
        """Where this run stands."""
        progress, beat_ms = self._way.progress, self._guard.pulse.durable_ms
        return Counters(
            self._way.records,
            progress.received,
            progress.durable,
            progress.confirmed,
            self._recorder.acknowledged_s,
            None if beat_ms is None else beat_ms / 1000,
            self._topics.cut_records,
            self._unheld.count,
            progress.settled,
        )

    @property
    def trouble(self) -> str:
        """Why nothing can be captured now, for people; empty while it can."""
        if not self.streaming:
            return self._trouble
        return "" if self._producer.has_room else f"Kafka is behind: {self._producer.last_trouble}"

    def run(self, stop: Stop) -> None:
        """Stream until ``stop()``; raises what needs a person."""
        self._guard.start()
        try:
            while not stop():
                self._session_or_pause(stop)
        except WalLimitError as limit:
            raise self._guard.carried_out(limit) from limit
        finally:
            self._guard.close()
        if self._way.progress.in_flight:
            raise LogError(
                f"stopped before Kafka had acknowledged everything: {self._producer.last_trouble}",
                f"start capture again: it publishes what follows {self._from()}",
            )

    def _session_or_pause(self, stop: Stop) -> None:
        confirmed, began = self._way.progress.confirmed, monotonic()
        waited = self._reconnect.waits
        try:
            self._session(stop)
        except RetryableError as error:
            now, self._trouble = monotonic(), str(error)
            advanced = self._way.progress.confirmed > confirmed
            pause_s = self._reconnect.after(error, now - began, advanced, now)
            if not isinstance(error, SlotInUseError):
                log.warning(LogEvent.RECONNECTING, reason=str(error), in_s=pause_s)
            elif error.pid == self._sender:
                self._guard.end_sender(error.pid)
            elif not waited:
                log.info(LogEvent.SLOT_IN_USE, up_to_s=SLOT_WAIT_S, reason=str(error))
            self._pause(pause_s, stop)

    def close(self) -> None:
        """Let go of Kafka; the stream is closed by ``run``."""
        self._broker.close()

    def _session(self, stop: Stop) -> None:
        """One connection, from START_REPLICATION to its end."""
        stream = ReplicationStream(
            self._source.dsn,
            self._source.slot_name,
            self._source.publication_name,
            self._way.progress.confirmed,
            self._reconnect.silence_s,
            self._guard.busy,
        )
        edges = Edges(stream, self._producer, self._recorder, self._guard)
        session = self._open = Session(edges, self._way, self._config.capture.feedback_s)
        self._sender = stream.pid
        try:
            held = self._take_up()
            transcriber = Transcriber(
                self._context,
                self._resolve,
                self._lookup,
                self._topics.count,
                self._way.progress.published,
                self._replay(held),
                self._topics,
                self._topics.ledger(),
                self._topics.dead_letters(),
                self._guard.nonce,
            )
            feed = ColumnarFeed(transcriber, self._context, self._topics.count)
            log.info(LogEvent.STREAMING, slot=self._source.slot_name, from_lsn=self._from())
            self.streaming = True
            session.run(transcriber, feed, stop)
            log.info(LogEvent.STOPPED, confirmed_lsn=self._from())
        finally:
            self._open, self.streaming = None, False
            stream.close()
            self._describer.close()

    def _pause(self, seconds: float, stop: Stop) -> None:
        until = monotonic() + seconds
        while monotonic() < until and not stop():
            self._producer.poll(0.05)
            self._recorder.record(self._way.progress)
            self._guard.check(self._producer.silent_since)

    def _from(self) -> str:
        return format_lsn(self._way.progress.confirmed)

    def _take_up(self) -> KafkaReplay:
        """What Kafka held when this process began; the slot and the source are still the same."""
        if self._held is None:
            return self._take_over()
        held = self._held
        with asking(self._source.dsn) as conn:
            mark = self._recorder.mark(self._way.progress)
            newest = max(held.newest, self._way.published.commit_lsn)
            covered = self._way.progress.published
            self._recorder.identity = check_source(
                self._config, conn, mark, lambda: newest, covered
            )
        return held

    def _take_over(self) -> KafkaReplay:
        """Read what Kafka holds, now that the slot is ours: until then the capture before this
        one may have published more, and it would be published again."""
        with asking(self._source.dsn) as conn:
            start = reconcile(self._config, conn, self._broker, self._read)
            self._columns.begin(conn)
        searched_from = start.mark.searched_from
        starts = self._broker.beginning_offsets(sorted(start.ends))
        if records := unbounded(searched_from, starts, start.ends):
            log.info(LogEvent.TOPICS_SCANNED, records=records)
        name, topics = self._source.name, sorted(start.ends)
        tails = read_tails(self._broker, topics, searched_from, self._read, name)
        self._way.progress = Progress(start.mark.confirmed)
        self._recorder.identity = start.identity
        self._recorder.turn = start.turn
        self._recorder.topic_ids = dict(start.topic_ids)
        self._recorder.regrouped = start.mark.regrouped
        self._topics.routed |= start.routed.places
        self._topics.joined |= start.routed.published
        self._recorder.routed = self._topics.routed
        self._topics.partitions.update({topic: len(ends) for topic, ends in start.ends.items()})
        self._producer.next_offsets.update({t: dict(ends) for t, ends in start.ends.items()})
        letters: Collection[tuple[str, Position]] = ()
        if (topic := dead_letters_topic(self._config.source.name)) in start.ends:
            letters = read_letters(self._broker, topic, start.mark.lsn)
        self._held = KafkaReplay(start.mark.lsn, tails, self._topics.partitions, letters)
        self._recorder.floors = Floors(searched_from, self._held.newest)
        return self._held

    def _replay(self, held: KafkaReplay) -> Replay:
        """What the session has to leave out."""
        published = self._way.published
        return SessionReplay(published, held) if published > Position(0, 0) else held

    def _kept_alive(self) -> None:
        """Feedback must not wait for what takes its time."""
        if self._open is not None:
            self._open.feedback_if_due()

    def _resolve(self, message: RelationMessage, xid: int, commit_lsn: int) -> Relation:
        """The table, as transaction ``xid`` or a later one left it."""
        self._await_visible(xid)
        before = self._attnums.before(message.oid, commit_lsn)
        described = self._describer.resolve(message, before)
        relation = self._attnums.completed(described, commit_lsn)
        self._kept_alive()
        return relation

    def _lookup(self, relation: Relation, key: Values, xid: int) -> Values | None:
        """The row, as transaction ``xid`` or a later one left it."""
        self._await_visible(xid)
        row = self._describer.lookup(relation, key)
        self._kept_alive()
        return row

    def _await_visible(self, xid: int) -> None:
        """What is decoded is in WAL; other sessions see it a moment later."""
        pause, deadline = Event(), monotonic() + VISIBLE_S
        while not self._describer.sees(xid):
            if monotonic() > deadline:
                raise RetryableError(
                    f"transaction {xid} is committed but not visible after {VISIBLE_S:g} s",
                    "it is probably waiting for a synchronous standby; check "
                    "synchronous_standby_names, and whether that standby is connected",
                )
            self._kept_alive()
            pause.wait(0.005)

    def _record_topics(self, topic: str, ends: dict[int, int]) -> None:
        self._recorder.floors.opened(topic, ends)
        self._recorder.topic_ids |= self._broker.topic_ids([topic])
        self._recorder.record_topics(self._way.progress, self._kept_alive)
