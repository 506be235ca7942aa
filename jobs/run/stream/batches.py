"""Micro-batches of the stream, applied to the state database: mirrors, dirty keys, progress.

A batch is one transaction. What it leaves undone after a crash was never begun, and comes again;
what it has done is known by the offsets that it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from cdc.kafka.broker import Offsets
from cdc.lsn import Position
from jobs.batch.folded_rows import count, is_apart, steps
from jobs.run.stream.applied_batch import Applied
from jobs.run.stream.left_out_values import with_earlier_values
from jobs.run.stream.unread_types import StaleTypesError, UnknownLabelsError
from jobs.state.batch.image_tables import image_tables, prepare_images
from jobs.state.batch.key_marker import KeyMarker
from jobs.state.batch.mirror_batch import LARGE, Images, images, write
from jobs.state.batch.staged_parts import drop_parts, open_parts, parts_of
from jobs.state.batch.staging import (
    Fault,
    Mirror,
    Record,
    RecordsNeededError,
    Staged,
    clear,
    forget_images,
    records_of,
    stage,
)
from jobs.state.batch.stream_offsets import Progress, advance, begin_batch, end_batch
from jobs.state.dead_letters.faulty_records import FaultyKeys
from jobs.state.histories.changes import HistoryChanges
from jobs.state.histories.queue import History
from jobs.state.mirrors.mirror_versions import seen_versions, unread
from jobs.state.mirrors.type_changes import may_be_types, unknown_labels
from jobs.state.server.connection import Connection, translated
from jobs.state.views.view_generation import ViewGeneration


class Batches:
    """Applies batches in a session of its own. Use from one thread at a time.

    Mirrors and views are given with ``know``.
    """

    def __init__(self, connect: Callable[[], Connection], faulty_at_most: int) -> None:
        self._connect, self._at_most = connect, faulty_at_most
        self._topics: Mapping[str, str] = {}
        self._mirrors: dict[str, Mirror] = {}
        self._views: Sequence[ViewGeneration] = ()
        self._histories = HistoryChanges((), {})
        self._conn: Connection | None = None
        self._marker: KeyMarker | None = None
        self._faulty: FaultyKeys | None = None

    def know(
        self,
        mirrors: Mapping[str, Mirror],
        topics: Mapping[str, str],
        views: Sequence[ViewGeneration],
        histories: Sequence[History] = (),
    ) -> None:
        """The mirrors by ``schema.table``, the table of each topic, and the views and the histories
        over them, from the next batch on."""
        self._mirrors, self._topics, self._views = dict(mirrors), topics, tuple(views)
        self._histories = HistoryChanges(histories, self._mirrors)
        self._marker = None

    @property
    def every_change_of(self) -> frozenset[str]:
        """The topics of which ``apply`` needs every change, for histories."""
        tables = self._histories.tables
        return frozenset(topic for topic, table in self._topics.items() if table in tables)

    def apply(
        self,
        begin: Offsets,
        end: Offsets,
        records: pa.Table,
        types_read: bool = False,
        changes: Iterable[pa.Table] = (),
    ) -> Applied | None:
        """Apply what stands between two offsets; None if that was done before. ``changes`` are all
        of the topics in ``every_change_of`` (``jobs.batch.history_changes``).

        Raises ``StaleTypesError`` where values do not fit a type that may have changed, unless
        ``types_read``, ``UnknownLabelsError`` then, and ``RetryableError`` while the state database
        is away.
        """
        conn, marker, faulty = self._session()
        try:
            truncated: dict[str, Position] = {}
            with translated("applying a batch"), conn.transaction():
                held = begin_batch(conn, begin, end)
                if held is None:
                    return None
                queued = self._queued(conn, faulty, changes, held.batch + 1)
                applied = self._apply(conn, marker, faulty, held, end, records, truncated)
                applied = applied.with_histories(*queued)
                tables = {label: one.table for label, one in self._mirrors.items()}
                if not types_read and may_be_types(applied.faults, tables):
                    raise StaleTypesError
                if unknown := unknown_labels(conn, applied.faults, tables):
                    raise UnknownLabelsError(unknown)
            for label, at in truncated.items():
                self._mirrors[label] = replace(self._mirrors[label], truncated=at)
            return applied
        except BaseException:
            self._faulty = None  # what it knows may have been rolled back
            raise

    @property
    def staging(self) -> tuple[Mapping[str, Mirror], Mapping[str, str]]:
        """The mirrors and the topics' tables, for tasks that stage a batch (``StagePart``)."""
        return self._mirrors, self._topics

    def drop_staged(self) -> None:
        """Drop what tasks have staged and nobody has applied."""
        conn, _, _ = self._session()
        open_parts(conn)

    def apply_staged(
        self, begin: Offsets, end: Offsets, answers: Sequence[str], changes: Iterable[pa.Table]
    ) -> Applied | None:
        """As ``apply``, of what tasks have staged and said. Raises ``RecordsNeededError`` where
        that is not enough, and nothing was applied then."""
        conn, marker, faulty = self._session()
        try:
            with translated("applying a batch"), conn.transaction():
                if (held := begin_batch(conn, begin, end)) is None:
                    return None
                if faulty.any:
                    raise RecordsNeededError
                parts = parts_of(conn, answers, self._mirrors)
                queued = self._queued(conn, faulty, changes, held.batch + 1)
                clear(conn, self._mirrors)
                _, views = self._change(conn, marker, parts.staged, held.batch + 1)
                forget_images(conn, [one.mirror for one in parts.staged])
                drop_parts(conn, parts.tables)
                progress, offsets = end_batch(conn, held, end, parts.lsn, parts.newest_us)
            applied = Applied(progress, offsets, views, parts.records, (), parts.oldest_us)
            return applied.with_histories(*queued)
        except BaseException:
            self._faulty = None  # what it knows may have been rolled back
            raise

    def unread(self, records: pa.Table) -> dict[str, set[str]]:
        """The versions that a batch's events are of, by ``schema.table``, if mirrors have to follow
        some of them first; else nothing."""
        seen = seen_versions(records, self._topics, self._mirrors)
        return seen if unread(self._mirrors, seen) else {}

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def _apply(
        self,
        conn: Connection,
        marker: KeyMarker,
        faulty: FaultyKeys,
        held: Progress,
        end: Offsets,
        records: pa.Table,
        truncated: dict[str, Position],
    ) -> Applied:
        number = held.batch + 1
        views, faults = self._taken(conn, marker, faulty, records, number, truncated)
        committed = _integers(records, "committed_us")
        lsn = max(_integers(records, "commit_lsn"), default=0)
        newest = max(committed, default=None)
        progress, offsets = end_batch(conn, held, end, lsn, newest)
        return Applied(progress, offsets, views, count(records), faults, committed)

    def again(self, tables: Sequence[pa.Table], keys: Collection[tuple[str, str]]) -> None:
        """Apply records again that could not be applied: each as folded rows, all that wait of
        ``keys`` (``schema.table`` and event key), in their order. What is still faulty stays."""
        conn, marker, faulty = self._session()
        truncated: dict[str, Position] = {}
        try:
            with translated("applying records again"), conn.transaction():
                number = advance(conn).batch
                faulty.forget(keys)
                for records in tables:
                    self._queued(conn, faulty, [records], number)
                    self._taken(conn, marker, faulty, records, number, truncated)
        except BaseException:
            self._faulty = None  # what it knows may have been rolled back
            raise

    def forget(self, keys: Collection[tuple[str, str]]) -> None:
        """Give up what waits of ``keys``: each row stays as it is until a later record of it."""
        conn, _, faulty = self._session()
        with translated("giving up records"), conn.transaction():
            faulty.forget(keys)

    def _taken(
        self,
        conn: Connection,
        marker: KeyMarker,
        faulty: FaultyKeys,
        records: pa.Table,
        number: int,
        truncated: dict[str, Position],
    ) -> tuple[set[int], list[Fault]]:
        """Records into the mirrors; the views that they touch, and what cannot be applied."""
        faults: list[Fault] = []
        applied: list[Record] = []
        views: set[int] = set()
        for step in steps(records):
            found = faulty.split(self._records(step, faults), faults)
            staged = stage(conn, self._mirrors, found)
            made, touched = self._change(conn, marker, staged, number)
            views |= touched
            faults += [fault for one in made for fault in one.faults]
            truncated |= {m.mirror.table.label: m.truncated for m in made if m.truncated}
            applied += [record for one in staged for record in one.records.values()]
        faulty.settle(self._ids, applied, faults, self._at_most)
        return views, faults

    def _queued(
        self, conn: Connection, faulty: FaultyKeys, changes: Iterable[pa.Table], number: int
    ) -> tuple[set[int], list[Fault]]:
        """Changes into the queues of histories, whose ids are told, while the mirrors are as they
        were; and those that cannot be."""
        touched: set[int] = set()
        faults: list[Fault] = []
        if not self._histories.tables:
            return touched, faults
        for some in changes:
            records = self._records(some, [])
            if is_apart(some):
                records = with_earlier_values(records, self._mirrors)
            found = faulty.split(records, faults)
            ids, refused = self._histories.queue(conn, found, number)
            touched |= ids
            faults += refused
        faults = [one for one in faults if one.record.table in self._histories.tables]
        faulty.note_of_histories(self._ids, faults, self._at_most)
        return touched, faults

    @property
    def _ids(self) -> dict[str, int]:
        return {label: mirror.id for label, mirror in self._mirrors.items()}

    @staticmethod
    def _change(
        conn: Connection, marker: KeyMarker, staged: Sequence[Staged], batch: int
    ) -> tuple[list[Images], set[int]]:
        """Change the mirrors; what was changed, and the views that have something to do since."""
        made = images(conn, staged)
        tables = frozenset(one.mirror.table.label for one in made if one.old or one.new)
        large = any(one.old + one.new >= LARGE for one in made)
        views = marker.before(conn, tables, batch, large)
        write(conn, made)
        views |= marker.after(conn, tables, batch)
        return made, views

    def _session(self) -> tuple[Connection, KeyMarker, FaultyKeys]:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
            self._marker = self._faulty = None
        if self._marker is None:
            for mirror in self._mirrors.values():
                prepare_images(self._conn, mirror.table, mirror.id)
            self._histories.prepare(self._conn)
            relations = {label: image_tables(mirror.id) for label, mirror in self._mirrors.items()}
            self._marker = KeyMarker(self._views, relations)
        if self._faulty is None:
            self._faulty = FaultyKeys(self._conn)
        return self._conn, self._marker, self._faulty

    def _records(self, records: pa.Table, faults: list[Fault]) -> Iterator[Record]:
        """The records of mirrored tables; ``faults`` gets those that are no events of ours."""
        for batch in records.to_batches():
            for record, cause in records_of(batch, self._topics):
                if cause is None:
                    yield record
                else:
                    faults.append(Fault(record, cause))


def _integers(records: pa.Table, name: str) -> list[int]:
    return list(pc.drop_null(records.column(name)).to_pylist())
