"""One session: frames of an open stream become records, and what is durable is confirmed.

    PostgreSQL ─frames─▶ Transcriber ─records─▶ Producer ─acks─▶ Progress ─mark─▶ Kafka
         ▲                                                                          │
         └────────────────────────── feedback: confirmed ◀──────────────────────────┘

Backpressure is not reading: while the producer has no room the loop only serves acknowledgements
and feedback.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, time_ns
from typing import Final, NamedTuple

import structlog

from cdc.capture.confirmation import Progress
from cdc.capture.guard import Guard
from cdc.capture.mark_writer import MarkWriter
from cdc.columnar.feed import ColumnarFeed
from cdc.errors import RetryableError
from cdc.events.change import Transcriber
from cdc.events.records import Batch
from cdc.kafka.client import HELD_BYTES
from cdc.kafka.producer import Producer
from cdc.log_events import LogEvent
from cdc.lsn import Position
from cdc.source.replication import ReplicationStream, parse_keepalive

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


@dataclass(slots=True)
class Way:
    """How far a process has come: what outlives its sessions. ``published`` is the position of the
    newest change that was handed to the producer, ``records`` how many records were."""

    progress: Progress
    published: Position
    records: int = 0


class Edges(NamedTuple):
    """What a session reads from, writes to and answers to."""

    stream: ReplicationStream
    producer: Producer
    recorder: MarkWriter
    guard: Guard


class Session:
    """From the first feedback to the last. One thread owns it."""

    def __init__(self, edges: Edges, way: Way, feedback_s: float) -> None:
        self._stream, self._producer, self._recorder, self._guard = edges
        self._way = way
        self._feedback_s = feedback_s
        self._feedback_at = 0.0
        self._frames = RECORDS_PER_READ

    def run(self, transcriber: Transcriber, feed: ColumnarFeed, stop: Stop) -> None:
        """Stream until ``stop()``; then everything published becomes durable, marked and
        confirmed. Raises ``RetryableError`` when the session is lost."""
        self._feedback()
        while not stop():
            self._step(transcriber, feed)
        self._finish()

    def feedback_if_due(self) -> None:
        """Feedback, unless there was some a moment ago."""
        if monotonic() >= self._feedback_at:
            self._feedback()

    def _step(self, transcriber: Transcriber, feed: ColumnarFeed) -> None:
        """Read, publish, serve: what one turn of the loop does."""
        arrived = self._stream.receive(self._frames) if self._producer.has_room else None
        if arrived:
            before = self._way.records
            fed, now_us = 0, time_ns() // 1000
            for at in arrived.keepalives:
                feed.feed(arrived.part(fed, at), now_us)
                fed = at + 1
                self._keepalive(arrived[at], transcriber)
            feed.feed(arrived.part(fed, len(arrived)), now_us)
            self._publish(transcriber)
            records = max(self._way.records - before, 1)
            self._frames = min(RECORDS_PER_READ * max(len(arrived) // records, 1), MOST_FRAMES)
        self._serve()
        if not arrived:
            self._wait()

    def _publish(self, transcriber: Transcriber) -> None:
        way, batch = self._way, transcriber.take()
        if batch.count:
            self._send(batch, transcriber.committed_lsn)
            # Only now: what a broken session fed but did not send must be sent by the next one.
            # Never back: while the server repeats itself only table descriptions are sent.
            way.published = max(way.published, transcriber.position)
            self._recorder.floors.handed_over(way.published.commit_lsn)
        else:
            way.progress.complete(transcriber.committed_lsn)
        way.progress.heard(transcriber.committed_lsn)
        self._guard.seen(transcriber.heartbeat)

    def _send(self, batch: Batch, end_lsn: int) -> None:
        flight = self._way.progress.submit(batch.awaited, end_lsn)
        self._way.records += batch.count
        self._producer.send(batch.records, batch.bytes + batch.count * HELD_BYTES, flight)

    def _keepalive(self, frame: bytes, transcriber: Transcriber) -> None:
        """WAL without captured changes passes by: complete, unless a transaction is open."""
        keepalive = parse_keepalive(frame)
        self._way.progress.heard(keepalive.wal_end)
        self._publish(transcriber)
        if not transcriber.in_transaction:
            self._way.progress.complete(keepalive.wal_end)
        if keepalive.reply_requested:
            self._feedback()

    def _serve(self) -> None:
        """Acknowledgements, the progress mark and feedback, each when it is due."""
        self._producer.poll(0)
        self._recorder.record(self._way.progress)
        self._guard.check(self._producer.silent_since)
        self.feedback_if_due()

    def _feedback(self) -> None:
        self._feedback_at = monotonic() + self._feedback_s
        progress = self._way.progress
        # Asking brings the server's WAL end, so that an idle source lets go of its WAL.
        self._stream.feedback(
            max(progress.received, progress.confirmed),
            progress.confirmed,
            time_ns() // 1000,
            ask=self._producer.has_room,
        )

    def _wait(self) -> None:
        """Until bytes arrive or something is due."""
        if not self._producer.has_room:
            self._producer.poll(IDLE_WAIT_S)
            return
        awaited = self._way.progress.in_flight or self._recorder.waiting
        longest = ACK_WAIT_S if awaited else IDLE_WAIT_S
        until_feedback = self._feedback_at - monotonic()
        select.select([self._stream], [], [], max(0.0, min(longest, until_feedback)))

    def _finish(self) -> None:
        deadline = monotonic() + STOP_S
        try:
            self._producer.flush(STOP_S)
            self._recorder.record(self._way.progress, now=True)
            self._producer.flush(max(0.0, deadline - monotonic()))
        except RetryableError as error:
            log.warning(LogEvent.STOPPED_BEFORE_ACKNOWLEDGEMENT, reason=str(error))
        self._recorder.record(self._way.progress)
        self._feedback()
        self._guard.taken(self._stream, self._way.progress.confirmed)
