"""The capture loop: one thread owns the stream, the producer and all progress.

    PostgreSQL ─frames─▶ Transcriber ─records─▶ Producer ─acks─▶ Progress ─mark─▶ Kafka
         ▲                                                                          │
         └────────────────────────── feedback: confirmed ◀──────────────────────────┘

Backpressure is not reading: while the producer has no room the loop only serves acknowledgements
and feedback. A lost connection is opened again with a bounded backoff; the server then repeats what
was not confirmed, and what this process published already is left out.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from time import monotonic, time_ns
from typing import Final, NamedTuple

import structlog

from cdc.capture.guard import Guard, WalLimitError
from cdc.capture.opening import Topics
from cdc.capture.progress import Progress
from cdc.capture.reconcile import begin, check_source, reconcile
from cdc.capture.reconnect import SLOT_WAIT_S, Reconnect
from cdc.capture.recorder import Recorder
from cdc.capture.replay import KafkaReplay, SessionReplay
from cdc.columnar.feed import ColumnarFeed
from cdc.config import Config
from cdc.errors import LogError, RetryableError
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.records import Batch, Replay
from cdc.kafka.broker import Broker
from cdc.kafka.producer import Producer
from cdc.kafka.tails import read_tails
from cdc.lsn import Position, format_lsn
from cdc.protocol.messages import RelationMessage, Values
from cdc.protocol.relation import Relation
from cdc.source.asking import asking
from cdc.source.describing import Describer
from cdc.source.replication import ReplicationStream, SlotInUseError, parse_keepalive

RECORDS_PER_READ: Final = 2_000
"""A block of fewer costs more a record, and one of more leaves the processor's cache."""
MOST_FRAMES: Final = 3 * RECORDS_PER_READ
"""Of a read: BEGIN, a row and COMMIT make one record."""
IDLE_WAIT_S: Final = 0.1
ACK_WAIT_S: Final = 0.001
"""How often acknowledgements are looked for while nothing else happens and some are awaited."""
STOP_S: Final = 1.5

log = structlog.get_logger("capture")
Stop = Callable[[], bool]


class Counters(NamedTuple):
    """What one run has done, for whoever watches."""

    records: int
    received: int
    confirmed: int


class Capture:
    """One run of capture, from reconciliation to a clean stop."""

    def __init__(self, config: Config, version: str) -> None:
        self._config = config
        self._source = config.source
        self._broker = Broker(config.kafka.bootstrap_servers, config.kafka)
        start = begin(config, self._broker)  # early, so that what cannot work is refused at once
        self._identity = start.identity
        self._context = SourceContext(version, self._source.name, start.identity.database)
        self._progress = Progress(start.mark.confirmed)
        self._held: KafkaReplay | None = None
        self._published = Position(0, 0)
        self._producer = Producer(
            config.kafka.bootstrap_servers,
            config.kafka.producer,
            config.capture.queue_mb << 20,
            config.kafka,
        )
        self._guard = Guard(config, start.mark.heartbeat_ms)
        pulse = self._guard.pulse
        self._recorder = Recorder(config, start.identity, self._producer, pulse)
        self._reconnect = Reconnect(config.capture.reconnect_s, config.capture.silence_s)
        self._topics = Topics(config, self._broker, self._producer, self._record_topics)
        self._describer = Describer(self._source.dsn, self._source.keys, self._topics.described)
        self._stream: ReplicationStream | None = None
        self._sender = 0
        self._feedback_at = 0.0
        self._frames = RECORDS_PER_READ
        self.records = 0

    @property
    def counters(self) -> Counters:
        """Where this run stands."""
        return Counters(self.records, self._progress.received, self._progress.confirmed)

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
        if self._progress.in_flight:
            raise LogError(
                f"stopped before Kafka had acknowledged everything: {self._producer.last_trouble}",
                f"nothing past {self._from()} was confirmed; the next start publishes the rest",
            )

    def _session_or_pause(self, stop: Stop) -> None:
        confirmed, began = self._progress.confirmed, monotonic()
        waited = self._reconnect.waits
        try:
            self._session(stop)
        except RetryableError as error:
            now = monotonic()
            advanced = self._progress.confirmed > confirmed
            pause_s = self._reconnect.after(error, now - began, advanced, now)
            if not isinstance(error, SlotInUseError):
                log.warning("reconnecting", reason=str(error), in_s=pause_s)
            elif error.pid == self._sender:
                self._guard.end_sender(error.pid)
            elif not waited:
                log.info("waiting for the slot", up_to_s=SLOT_WAIT_S, reason=str(error))
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
            self._progress.confirmed,
            self._reconnect.silence_s,
            self._guard.busy,
        )
        self._stream, self._sender = stream, stream.pid
        try:
            held = self._take_up()
            transcriber = Transcriber(
                self._context,
                self._resolve,
                self._lookup,
                self._topics.count,
                self._progress.published,
                self._replay(held),
                self._topics,
                self._topics.ledger(),
                self._topics.dead_letters(),
            )
            feed = ColumnarFeed(transcriber, self._context, self._topics.count)
            log.info("streaming", slot=self._source.slot_name, from_lsn=self._from())
            self._feedback(stream)
            while not stop():
                self._step(stream, transcriber, feed)
            self._finish(stream)
        finally:
            self._stream = None
            stream.close()
            self._describer.close()

    def _step(
        self, stream: ReplicationStream, transcriber: Transcriber, feed: ColumnarFeed
    ) -> None:
        """Read, publish, serve: what one turn of the loop does."""
        arrived = stream.receive(self._frames) if self._producer.has_room else None
        if arrived:
            before = self.records
            fed, now_us = 0, time_ns() // 1000
            for at in arrived.keepalives:
                feed.feed(arrived.part(fed, at), now_us)
                fed = at + 1
                self._keepalive(arrived[at], stream, transcriber)
            feed.feed(arrived.part(fed, len(arrived)), now_us)
            self._publish(transcriber)
            records = max(self.records - before, 1)
            self._frames = min(RECORDS_PER_READ * max(len(arrived) // records, 1), MOST_FRAMES)
        self._serve()
        if not arrived:
            self._wait(stream)

    def _publish(self, transcriber: Transcriber) -> None:
        batch = transcriber.take()
        if batch.count:
            self._send(batch, transcriber.committed_lsn)
            # Only now: what a broken session fed but did not send must be sent by the next one.
            # Never back: while the server repeats itself only table descriptions are sent.
            self._published = max(self._published, transcriber.position)
        else:
            self._progress.complete(transcriber.committed_lsn)
        self._progress.heard(transcriber.committed_lsn)
        self._guard.seen(transcriber.heartbeat)

    def _send(self, batch: Batch, end_lsn: int) -> None:
        flight = self._progress.submit(batch.awaited, end_lsn)
        self.records += batch.count
        self._producer.send(batch.records, batch.bytes, flight)

    def _keepalive(self, frame: bytes, stream: ReplicationStream, transcriber: Transcriber) -> None:
        """WAL without captured changes passes by: complete, unless a transaction is open."""
        keepalive = parse_keepalive(frame)
        self._progress.heard(keepalive.wal_end)
        self._publish(transcriber)
        if not transcriber.in_transaction:
            self._progress.complete(keepalive.wal_end)
        if keepalive.reply_requested:
            self._feedback(stream)

    def _serve(self) -> None:
        """Acknowledgements, the progress mark and feedback, each when it is due."""
        self._producer.poll(0)
        self._recorder.record(self._progress)
        self._guard.check()
        self._feedback_if_due()

    def _feedback_if_due(self) -> None:
        if self._stream is not None and monotonic() >= self._feedback_at:
            self._feedback(self._stream)

    def _feedback(self, stream: ReplicationStream) -> None:
        self._feedback_at = monotonic() + self._config.capture.feedback_s
        progress = self._progress
        # Asking brings the server's WAL end, so that an idle source lets go of its WAL.
        stream.feedback(
            max(progress.received, progress.confirmed),
            progress.confirmed,
            time_ns() // 1000,
            ask=self._producer.has_room,
        )

    def _wait(self, stream: ReplicationStream) -> None:
        """Until bytes arrive or something is due."""
        if not self._producer.has_room:
            self._producer.poll(IDLE_WAIT_S)
            return
        awaited = self._progress.in_flight or self._recorder.waiting
        longest = ACK_WAIT_S if awaited else IDLE_WAIT_S
        select.select([stream], [], [], max(0.0, min(longest, self._feedback_at - monotonic())))

    def _finish(self, stream: ReplicationStream) -> None:
        """Everything published becomes durable, marked and confirmed before the stream ends."""
        deadline = monotonic() + STOP_S
        try:
            self._producer.flush(STOP_S)
            self._recorder.record(self._progress, now=True)
            self._producer.flush(max(0.0, deadline - monotonic()))
        except RetryableError as error:
            log.warning("not everything is acknowledged", reason=str(error))
        self._recorder.record(self._progress)
        self._feedback(stream)
        self._guard.taken(stream, self._progress.confirmed)
        log.info("stopped", confirmed_lsn=self._from())

    def _pause(self, seconds: float, stop: Stop) -> None:
        until = monotonic() + seconds
        while monotonic() < until and not stop():
            self._producer.poll(0.05)
            self._recorder.record(self._progress)
            self._guard.check()

    def _from(self) -> str:
        return format_lsn(self._progress.confirmed)

    def _take_up(self) -> KafkaReplay:
        """What Kafka held when this process began; the slot and the source are still the same."""
        if self._held is None:
            return self._take_over()
        held = self._held
        with asking(self._source.dsn) as conn:
            mark = self._recorder.mark(self._progress)
            newest = max(held.newest, self._published.commit_lsn)
            covered = self._progress.published
            self._recorder.identity = check_source(
                self._config, conn, mark, lambda: newest, covered
            )
        return held

    def _take_over(self) -> KafkaReplay:
        """Read what Kafka holds, now that the slot is ours: until then the capture before this
        one may have published more, and it would be published again."""
        with asking(self._source.dsn) as conn:
            start = reconcile(self._config, conn, self._broker)
        tails = read_tails(self._broker, sorted(start.ends), start.mark.offsets)
        self._progress = Progress(start.mark.confirmed)
        self._recorder.identity = start.identity
        self._topics.partitions.update({topic: len(ends) for topic, ends in start.ends.items()})
        self._producer.next_offsets.update({t: dict(ends) for t, ends in start.ends.items()})
        self._held = KafkaReplay(start.mark.lsn, tails, self._topics.partitions)
        return self._held

    def _replay(self, held: KafkaReplay) -> Replay:
        """What the session has to leave out."""
        if self._published > Position(0, 0):
            return SessionReplay(self._published, held)
        return held

    def _resolve(self, message: RelationMessage) -> Relation:
        """A frame that asks the source takes its time: feedback must not wait for the others."""
        relation = self._describer.resolve(message)
        self._feedback_if_due()
        return relation

    def _lookup(self, relation: Relation, key: Values) -> Values | None:
        row = self._describer.lookup(relation, key)
        self._feedback_if_due()
        return row

    def _record_topics(self) -> None:
        self._recorder.record_topics(self._progress, self._feedback_if_due)
