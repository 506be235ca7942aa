"""One process that keeps views: its stream, its mirrors, and the views, which come and go.

The thread that runs it takes up views that are declared, lets go of those that are not any more,
obeys commands, and starts the stream anew when its topics change. Batches are applied on the
stream's thread, rows are written on one thread for each store, and a view is built on a thread of
its own, so that none waits for another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Final

import structlog

from cdc.errors import HeadwaterError, RetryableError
from cdc.kafka.broker import Offsets
from cdc.log_events import LogEvent
from cdc.logs import faults_logged
from jobs.run.builds.worker_start import WorkerStart
from jobs.run.commands.queue import Orders
from jobs.run.process_parts import Parts
from jobs.run.removal import drop_spare_mirrors, spare_mirrors
from jobs.run.schedule import Chore, Schedule
from jobs.run.state_upkeep import StateUpkeep, trim_changes
from jobs.run.stream.applied_batch import Applied
from jobs.run.stream.batches import Batches
from jobs.run.stream.large_batch_staging import by_tasks
from jobs.run.stream.record_reader import read_again
from jobs.run.stream.recreated_topics import leave_recreated, recreated
from jobs.run.stream.stream import OpenStream, StreamBatch, refuse_read_before
from jobs.run.stream.unfound_keys import without_unfound
from jobs.run.tables.altered_tables import AlteredTables
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.run.tables.source_settings import SourceSettings
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.run.views.group_commits import GroupCommits
from jobs.run.views.group_offsets import GroupOffsets
from jobs.run.views.view_registry import ViewRegistry
from jobs.state.batch.staging import RecordsNeededError
from jobs.state.batch.stream_offsets import has_applied, offsets_of, read_progress, stream_offsets
from jobs.state.dead_letters.faulty_records import FaultyRecord
from jobs.state.server.connection import Connection, translated
from jobs.state.views.missed_changes import leave_all_but

_POLL_S: Final = 0.05
_ORDERS_S: Final = 0.5
_LOOK_S: Final = 1.0
_VERSIONS_S, _TABLES_S, _TRIM_S = 5.0, 5.0, 5.0
_SOURCE_AWAY_S: Final = 60.0
"""A source that does not answer holds up all else until its connection times out."""
_UPKEEP_S: Final = 600.0
_AGAIN_S: Final = 1.0

log = structlog.get_logger("apply")


class Engine:
    """Keeps views until it is told to stop. Owns the stream, which ``open_stream`` makes of what
    applies its batches, and a session with the state."""

    def __init__(
        self,
        parts: Parts,
        open_stream: Callable[[Callable[[StreamBatch], None]], OpenStream],
        stopping: threading.Event,
    ) -> None:
        self._parts, self._stopping = parts, stopping
        self._conn = self._connect()
        self._lock = threading.RLock()
        self._batches = Batches(self._connect, parts.config.apply.dlq_limit)
        self._reach = GroupOffsets(parts.broker, self._older)
        self._commits = GroupCommits(self._reach)
        settings = SourceSettings(parts.config, parts.reload)
        self._tables = MirroredTables(parts.config, parts.broker, settings, WorkerStart(parts).told)
        self._joined = threading.Event()
        self._generations = GenerationRegistry(
            parts, self._tables, self._reach, self.changing, self._joined.set
        )
        self._altered = AlteredTables(self._tables, self._generations, self.changing, self._passed)
        self._without_unfound = partial(without_unfound, self._generations, self._passed)
        self._views = ViewRegistry(parts, self._generations)
        self._orders = Orders(parts, self._views, self)
        self._spare = self._streams = self._available_now = self._at_end = False
        self._target: Offsets = {}
        self._stream = open_stream(self.apply)
        self._last = read_progress(self._conn).batch
        self._upkeep = StateUpkeep(self._tables, self._reach, self.changing, self._ends)
        self._schedule = Schedule(
            (
                Chore("views", _LOOK_S, self._look),
                Chore("orders", _ORDERS_S, lambda: self._orders.conduct(self._conn)),
                Chore("stream", _POLL_S, self._keep_stream),
                Chore("commit", _POLL_S, self._commit),
                Chore("versions", _VERSIONS_S, self._look_at_versions),
                Chore("tables", _TABLES_S, self._look_at_names),
                Chore("upkeep", _UPKEEP_S, self._look_after),
                Chore("changes", _TRIM_S, lambda: trim_changes(self._conn, parts.config)),
                Chore("end", _POLL_S, self._look_at_end),
            )
        )

    def run(self, available_now: bool = False) -> dict[str, HeadwaterError]:
        """Keep views until it is told to stop, or, if ``available_now``, until they hold what
        Kafka held when they were built; why those stopped that could not go on."""
        self._available_now = available_now
        self._joined.set()
        probes = self._parts.probes
        probes.ready_unless(lambda: [] if self._streams else ["the stream does not run"])
        probes.ready_unless(self._generations.interrupted)
        try:
            self._commits.start()
            while not (self._at_end or self._stopping.wait(_POLL_S)):
                probes.moved()
                self._conduct()
            if self._at_end:
                log.info(LogEvent.CAUGHT_UP, batch=self._last)
        finally:
            self._close()
        return self._views.errors()

    def apply(self, batch: StreamBatch) -> None:
        """Apply a batch of the stream; on its thread."""
        self._parts.server.hold()
        try:
            self._take_up(batch, partial(by_tasks, self._parts, self._batches))
        except RecordsNeededError:
            for piece in batch.pieces():
                self._take_up(piece, self._apply)

    def _take_up(self, batch: StreamBatch, apply: Callable[[StreamBatch], Applied | None]) -> None:
        with self._lock:
            refuse_read_before(self._parts.reader, batch)
            if (applied := self._without_unfound(lambda: apply(batch))) is None:
                return
            self._reach.batch(applied.progress.batch, applied.offsets)
            self._generations.batch(applied)
            self._last = applied.progress.batch  # then: who has no work has reached the last batch
        for fault in applied.faults:
            log.error(LogEvent.RECORD_NOT_APPLIED, record=fault.record.record, cause=fault.cause)

    def refill(self, labels: Sequence[str]) -> None:
        """Fill the mirrors of these tables again, and make up what views over them miss."""
        self._altered.refill(labels)

    def again(self, records: Sequence[FaultyRecord]) -> None:
        """Apply records once more that could not be applied."""
        tables = read_again(self._parts, [one.record for one in records])
        with self._lock:
            keys = {(one.table, one.key) for one in records}
            self._without_unfound(lambda: self._batches.again(tables, keys))
        self._generations.wake()

    def forget(self, records: Sequence[FaultyRecord]) -> None:
        """Give them up."""
        with self._lock:
            self._batches.forget({(one.table, one.key) for one in records})

    def spare_mirrors(self) -> None:
        """Mirrors that no view needs are dropped, when the stream stands."""
        self._spare = True
        self._joined.set()

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """No batch is applied herein; the next one knows the mirrors and views there are then."""
        with self._lock, closing(self._connect()) as conn:
            # Who reads a mirror for long may wait for others to read it: not behind us.
            conn.execute(b"set lock_timeout = '2s'")
            yield conn
            mirrors = self._tables.for_batches(conn)
            topics = {self._tables.topic(label): label for label in mirrors}
            self._tables.tell(self._parts.reader, conn)
            self._generations.pass_over_stale({k: one.fill_lsn for k, one in mirrors.items()})
            kept, histories = self._generations.views(), self._generations.histories()
            if self._streams:
                leave_all_but(conn, [one.id for one in kept])
            queued = {one.id for one in histories}
            self._batches.know(mirrors, topics, [o for o in kept if o.id not in queued], histories)

    def _apply(self, batch: StreamBatch) -> Applied | None:
        return self._altered.apply(self._batches, batch)

    def _conduct(self) -> None:
        for chore in self._schedule.due():
            try:
                with translated(f"looking after {chore.name}"):
                    self._conn = self._connect() if self._conn.closed else self._conn
                    chore.do()
            except RetryableError as error:
                log.warning(LogEvent.TRIED_AGAIN, what=chore.name, error=str(error))
                self._schedule.wait(chore.name, max(chore.every_s, _AGAIN_S))
                if self._conn.closed:  # the others would wait for the server as long, and a stop
                    return

    def _keep_stream(self) -> None:
        """Start the stream where the state database is, if it does not run over its topics."""
        if (error := self._stream.error()) is not None and self._streams:
            if not (isinstance(error, RetryableError) or recreated(self._conn, self._tables)):
                log.error(LogEvent.STREAM_STOPPED, error=str(error))  # ending may take a while
                raise error
            log.warning(LogEvent.STREAM_INTERRUPTED, error=str(error))
            self._joined.set()
        if not self._joined.is_set():
            return
        self._joined.clear()
        try:
            self._start_stream()
        except HeadwaterError:
            self._joined.set()  # what is away now may be back at the next attempt
            raise

    def _start_stream(self) -> None:
        """Anew, unless there is nothing to read."""
        if self._streams:
            self._streams = False
            self._stream.stop()
        with self.changing() as conn:
            if self._spare:
                drop_spare_mirrors(conn, self._tables, self._views.wanted())
                self._spare = False
            if leave_recreated(conn, self._tables, self._generations):
                self._schedule.soon("views")
                self._upkeep.topics_recreated()
            leave_all_but(conn, [one.id for one in self._generations.views()])
            offsets = stream_offsets(conn)
            self._generations.wake()  # others may have made keys dirty meanwhile
            self._last = read_progress(conn).batch
        self._reach.batch(self._last, offsets)
        if offsets:
            self._stream.start(offsets)
            self._streams = True
            log.info(LogEvent.STREAM_STARTED, topics=len(offsets))

    def _passed(self) -> None:
        """Views are to be opened again."""
        self._schedule.soon("views")

    def _look(self) -> None:
        """Take up what is declared, and what other commands have made dirty."""
        self._views.follow(self._conn)
        with self._lock:
            if (batch := read_progress(self._conn).batch) == self._last:
                return
            self._reach.batch(batch, stream_offsets(self._conn))
            self._generations.wake()
            self._last = batch

    def _look_at_versions(self) -> None:
        """No event tells of a topic that was recreated, either."""
        if self._streams and recreated(self._conn, self._tables):
            self._joined.set()
        self._altered.look_at_versions(self._conn)

    def _look_at_names(self) -> None:
        if not self._altered.look_at_names(self._conn):
            self._schedule.wait("tables", _SOURCE_AWAY_S)

    def _look_after(self) -> None:
        self._upkeep.look_after(self._conn)
        if spare_mirrors(self._conn, self._views.wanted()):
            self.spare_mirrors()

    def _commit(self) -> None:
        self._generations.caught_up(self._last)
        self._commits.raise_fault()

    def _ends(self) -> Offsets:
        """Where the topics of the stream end now."""
        return self._parts.broker.end_offsets(sorted(stream_offsets(self._conn)))

    def _look_at_end(self) -> None:
        """Note when all is applied that Kafka held as the views were built."""
        if self._available_now and self._views.settled() and not self._joined.is_set():
            self._target = self._target or self._ends()
            held = has_applied(self._conn, self._target)
            self._at_end = held and self._views.have_reached(read_progress(self._conn).batch)

    def _close(self) -> None:
        with faults_logged(log, LogEvent.COMMANDS_NOT_ENDED), translated("ending commands"):
            self._orders.close(self._conn)
        if self._streams:
            self._stream.stop()
        self._stream.close()
        self._views.close()
        self._altered.close()
        self._commits.end()
        self._batches.close()
        self._conn.close()

    def _older(self, batches: Sequence[int]) -> dict[int, Offsets]:
        with closing(self._connect()) as conn:
            return offsets_of(conn, batches)

    def _connect(self) -> Connection:
        return self._parts.server.connect(autocommit=True)
