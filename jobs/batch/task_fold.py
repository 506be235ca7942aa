"""Records of a partition folded where they are read: by the driver, or by a task of Spark's.

The rule is that of ``jobs.batch.folded_rows``. Of an event as much is read as it asks for; images
are taken as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa

from cdc.events.codes import SNAPSHOT, TRUNCATE
from cdc.kafka.range_reader import Raw
from jobs.batch.folded_rows import NO_EVENT, SCHEMA
from jobs.batch.images import Image, filled, read_row, text
from jobs.batch.task_parts import Part
from jobs.batch.version_periods import Periods

OVERHEAD_BYTES: Final = 600
"""Of a record that is held, beside its value."""
_BATCH_BYTES: Final = 8 << 20
_MOST_EARLIER: Final = 16
"""Images of a key that are held for values left out; then they become one."""


class TooLargeError(Exception):
    """A part holds more than a task may."""


class SeveralVersionsError(Exception):
    """A part has several table versions, whose periods have to be known before it is folded."""


_Long = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Source(msgspec.Struct, gc=False):
    commit_lsn: _Long
    ordinal: _Long
    schema_id: str
    ts_us: _Long | None = None
    unchanged: list[str] | None = None


class _Event(msgspec.Struct, gc=False):
    op: str
    source: _Source
    before: msgspec.Raw = msgspec.Raw(b"null")
    after: msgspec.Raw = msgspec.Raw(b"null")

    def image(self) -> Image:
        return Image(text(self.after), self.source.unchanged or ())

    def earlier(self) -> Image:
        """The image as one that values left out are taken from."""
        if self.op == SNAPSHOT:
            return read_row(text(self.after), self.source.commit_lsn)
        return self.image()


_decoded: Final = msgspec.json.Decoder(_Event).decode
_IMAGES: Final = frozenset(b"{n")
"""How an image begins: an object, or null."""
_At = tuple[int, int, int]
"""Position, and the offset of records that have the same."""


class Last:
    """The last change of a key, and what was folded into it. ``event`` None is no event."""

    __slots__ = ("at", "earlier", "event", "key", "oldest_us", "records", "size")

    def __init__(
        self, key: bytes | None, at: _At, event: _Event | None, size: int, oldest_us: int | None
    ) -> None:
        self.key, self.at, self.event, self.size = key, at, event, size
        self.records, self.oldest_us = 1, oldest_us
        self.earlier: list[tuple[_At, Image]] = []

    def is_of(self, schema_id: str) -> bool:
        """Whether it is an event of a table version."""
        return self.event is not None and self.event.source.schema_id == schema_id

    def image(self) -> Image:
        """The image with values that it left out."""
        assert self.event is not None, "only events have images"
        last = self.event.image()
        self.earlier.sort(key=lambda one: one[0], reverse=True)
        return filled(last, (image for _, image in self.earlier))

    def as_earlier(self) -> tuple[_At, Image]:
        """What a later change takes from it, if it has the values that that left out."""
        assert self.event is not None, "only events have images"
        return self.at, self.image() if self.event.source.unchanged else self.event.earlier()


def fold_part(part: Part, most_bytes: int, read: Callable[[], Iterable[Iterable[Raw]]]) -> TaskFold:
    """Fold what ``read`` gives; that is read anew for the periods of table versions if there are
    several. Raises ``TooLargeError``."""
    fold = TaskFold(part, most_bytes)
    try:
        for records in read():
            fold.add(records)
    except SeveralVersionsError:
        periods = Periods()
        for records in read():
            note_periods(periods, records)
        fold = TaskFold(part, most_bytes, periods)
        for records in read():
            fold.add(records)
    return fold


def note_periods(periods: Periods, records: Iterable[Raw]) -> None:
    """Add all events among some records of a topic."""
    for key, value, offset in records:
        if value is not None and (one := read_event(key, value, offset)) is not None:
            assert one.event is not None, "what was read is an event"
            source = one.event.source
            periods.add(source.commit_lsn, source.ordinal, source.schema_id)


class TaskFold:
    """Folds the records of one part of a partition; ``periods`` are those of its topic, None as
    long as there is one table version."""

    def __init__(self, part: Part, most_bytes: int, periods: Periods | None = None) -> None:
        self._part, self._most_bytes, self._periods = part, most_bytes, periods
        self._groups: dict[str | int, dict[bytes | None, Last]] = {}
        self._alone = list[Last]()
        self._held_bytes = 0

    def add(self, records: Iterable[Raw]) -> None:
        """Raises ``TooLargeError`` as soon as more is held than may be, and
        ``SeveralVersionsError`` for a second table version without periods."""
        part = self._part
        divided = part.slices > 1
        for key, value, offset in records:
            if value is None or (divided and not part.has(key, offset)):
                continue
            self._add(key, value, offset)
        if self._held_bytes > self._most_bytes:
            raise TooLargeError

    def rows(self) -> Iterator[Last]:
        """What is left, in no order."""
        for held in self._groups.values():
            yield from held.values()
        yield from self._alone

    def _add(self, key: bytes | None, value: bytes, offset: int) -> None:
        size = len(value) + OVERHEAD_BYTES
        event = _event(value)
        held = None if event is None else self._held(event.source)
        known = None if held is None else held.get(key)
        if event is None or held is None or (known is None and not _is_text(key)):
            self._keep(Last(key, (0, 0, offset), None, size, None))
            return
        source = event.source
        at = (source.commit_lsn, source.ordinal, offset)
        oldest_us = None if event.op == SNAPSHOT else source.ts_us
        if key is None and event.op != TRUNCATE:
            self._keep(Last(key, at, event, size, oldest_us))
            return
        if known is None:
            held[key] = Last(key, at, event, size, oldest_us)
            self._held_bytes += size
            return
        known.records += 1
        if oldest_us is not None and (known.oldest_us is None or oldest_us < known.oldest_us):
            known.oldest_us = oldest_us
        self._held_bytes += _replace(known, at, event, size)

    def _held(self, source: _Source) -> dict[bytes | None, Last]:
        """What is folded together with an event, by key."""
        group: str | int = source.schema_id
        if self._periods is not None:
            group = self._periods.number(source.commit_lsn, source.ordinal, source.schema_id)
        held = self._groups.get(group)
        if held is None:
            if self._groups and self._periods is None:
                raise SeveralVersionsError
            held = self._groups[group] = {}
        return held

    def _keep(self, one: Last) -> None:
        self._alone.append(one)
        self._held_bytes += one.size


def read_event(key: bytes | None, value: bytes, offset: int) -> Last | None:
    """A record as a change of its own; None if it is no event."""
    event = _event(value)
    if event is None or not _is_text(key):
        return None
    source = event.source
    at = (source.commit_lsn, source.ordinal, offset)
    oldest_us = None if event.op == SNAPSHOT else source.ts_us
    return Last(key, at, event, len(value) + OVERHEAD_BYTES, oldest_us)


def _event(value: bytes) -> _Event | None:
    """None for what is no event."""
    try:
        value.decode()
        event = _decoded(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not {memoryview(event.before)[0], memoryview(event.after)[0]} <= _IMAGES:
        return None
    return event


def _is_text(key: bytes | None) -> bool:
    try:
        return key is None or key.decode() is not None
    except UnicodeDecodeError:
        return False


def _replace(known: Last, at: _At, event: _Event, size: int) -> int:
    """Let ``known`` be the later one of two changes; how many bytes more it holds then."""
    assert known.event is not None, "what is no event has no key here"
    if at < known.at:
        if not known.event.source.unchanged:
            return 0
        known.earlier.append((at, event.earlier()))
        return size
    before = known.size
    if event.source.unchanged:
        known.earlier.append((known.at, known.event.earlier()))
        if len(known.earlier) > _MOST_EARLIER:
            known.earlier = [known.as_earlier()]
        known.size = size + before
    else:
        known.earlier = []
        known.size = size
    known.at, known.event = at, event
    return known.size - before


def batches(part: Part, found: Iterable[Last]) -> Iterator[pa.RecordBatch]:
    """Rows of ``jobs.batch.folded_rows.SCHEMA``, in batches of a few megabytes."""
    some, size = list[Last](), 0
    for one in found:
        some.append(one)
        size += one.size
        if size > _BATCH_BYTES:
            yield _batch(part, some)
            some, size = [], 0
    if some:
        yield _batch(part, some)


def _batch(part: Part, found: list[Last]) -> pa.RecordBatch:
    images = [Image(None, ()) if one.event is None else one.image() for one in found]
    arrays = {
        "topic": [part.stretch.topic] * len(found),
        "partition": [part.stretch.partition] * len(found),
        "offset": [one.at[2] for one in found],
        "key": [_key(one.key) for one in found],
        "before": [None if one.event is None else text(one.event.before) for one in found],
        "after": [image.after for image in images],
        "unchanged": [list(image.unchanged) or None for image in images],
        "read_lsn": [image.read_lsn for image in images],
        "records": [one.records for one in found],
        "oldest_us": [one.oldest_us for one in found],
        "cause": [NO_EVENT if one.event is None else None for one in found],
        "op": _each(found, lambda event: event.op),
        "commit_lsn": _each(found, lambda event: event.source.commit_lsn),
        "ordinal": _each(found, lambda event: event.source.ordinal),
        "schema_id": _each(found, lambda event: event.source.schema_id),
        "committed_us": _each(found, lambda event: event.source.ts_us),
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(arrays[field.name], field.type) for field in SCHEMA], schema=SCHEMA
    )


def _each(found: Iterable[Last], of_event: Callable[[_Event], Any]) -> list[Any]:
    return [None if one.event is None else of_event(one.event) for one in found]


def _key(key: bytes | None) -> str | None:
    return None if key is None else key.decode(errors="replace")
