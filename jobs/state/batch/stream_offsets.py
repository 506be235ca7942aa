"""How far the mirrors are: the stream's offsets, the batches, and the position they stand for.

The offsets are the truth of the stream: they are written in the transaction that applies a batch,
so whatever comes again after a crash is known by them. The mirrors' position is
``(lsn, total)``: the greatest commit LSN that was applied, and the sum of all offsets, which rises
with every batch. Rows are written to stores under it, so the order of two writes of one key is the
order of the states they were made from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from psycopg.types.json import Jsonb

from cdc.errors import RetryableError
from cdc.kafka.broker import Offsets, Place
from cdc.lsn import Position
from jobs.state.server.connection import Connection

KEPT_BATCHES = 10_000
"""So many batches are remembered at least, beyond those that a view has still to reach: hours of
them, for `headwater trace`."""
MOST_BATCHES = 100_000
"""So many at most, some hours of them."""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Progress(NamedTuple):
    """``batch`` counts from 0, which nothing was applied in."""

    batch: int
    lsn: int
    total: int
    committed_at: datetime | None

    @property
    def position(self) -> Position:
        return Position(self.lsn, self.total)


def read_progress(conn: Connection) -> Progress:
    query = b"select batch, lsn, total, committed_at from headwater.progress"
    row = conn.execute(query, prepare=True).fetchone()
    assert row is not None, "the migrations write it"
    return Progress(*row)


def stream_offsets(conn: Connection) -> Offsets:
    """Where the stream goes on: the next offset of each partition of the mirrored tables."""
    found: dict[str, dict[int, int]] = {}
    query = b"select topic, partition, next_offset from headwater.stream"
    for topic, partition, offset in conn.execute(query, prepare=True):
        found.setdefault(topic, {})[partition] = offset
    return found


def has_applied(conn: Connection, target: Offsets) -> bool:
    """Whether the mirrors have what is below these offsets."""
    held = stream_offsets(conn)
    return all(
        held.get(topic, {}).get(partition, 0) >= at
        for topic, of_topic in target.items()
        for partition, at in of_topic.items()
    )


def begin_batch(conn: Connection, begin: Offsets, end: Offsets) -> Progress | None:
    """Lock the progress for a batch, in the caller's transaction; None if it was applied before.

    Raises ``RetryableError`` for one that does not begin where the last one ended.
    """
    query = b"select batch, lsn, total, committed_at from headwater.progress for update"
    row = conn.execute(query, prepare=True).fetchone()
    assert row is not None, "the migrations write it"
    held = stream_offsets(conn)
    if all(_at(held, topic, n) >= at for topic, of in end.items() for n, at in of.items()):
        return None
    for topic, of_topic in begin.items():
        for partition, at in of_topic.items():
            if (there := held.get(topic, {}).get(partition)) is not None and there != at:
                raise RetryableError(
                    f"a batch begins at {topic}-{partition}-{at}, but the state database has "
                    f"applied up to offset {there}",
                    "wait: the stream restarts from there",
                )
    return Progress(*row)


def end_batch(
    conn: Connection, held: Progress, end: Offsets, lsn: int, committed_us: int | None
) -> tuple[Progress, Offsets]:
    """Write how far the mirrors are now, in the transaction that changed them; all offsets."""
    topics, partitions, offsets = _columns(end)
    conn.execute(
        b"insert into headwater.stream (topic, partition, next_offset) "
        b"select * from unnest(%s::text[], %s::int[], %s::bigint[]) "
        b"on conflict (topic, partition) do update set next_offset = excluded.next_offset",
        (topics, partitions, offsets),
        prepare=True,
    )
    row = conn.execute(
        b"update headwater.progress set batch = batch + 1, lsn = greatest(lsn, %s), "
        b"total = greatest(total + 1, (select sum(next_offset) from headwater.stream)), "
        b"committed_at = greatest(committed_at, to_timestamp(%s::float8 / 1000000)), "
        b"applied_at = now() returning batch, lsn, total, committed_at",
        (lsn, committed_us),
        prepare=True,
    ).fetchone()
    assert row is not None, "the migrations write it"
    assert row[0] == held.batch + 1, "progress is locked"
    progress = Progress(*row)
    return progress, _remember(conn, progress)


def advance(conn: Connection, lsn: int = 0) -> Progress:
    """A batch of its own for what changed otherwise than by the stream: a mirror that was filled,
    rows that have to be written again. In the caller's transaction."""
    row = conn.execute(
        b"update headwater.progress set batch = batch + 1, lsn = greatest(lsn, %s), "
        b"total = total + 1, applied_at = now() returning batch, lsn, total, committed_at",
        (lsn,),
    ).fetchone()
    assert row is not None, "the migrations write it"
    progress = Progress(*row)
    _remember(conn, progress)
    return progress


def add_partitions(conn: Connection, begin: Offsets, ids: Mapping[str, str] = _NONE) -> None:
    """The stream has these too, from there on: a topic whose table is mirrored now. ``ids`` are
    Kafka's, of topics that have one."""
    topics, partitions, offsets = _columns(begin)
    conn.execute(
        b"insert into headwater.stream (topic, partition, next_offset, topic_id) "
        b"select * from unnest(%s::text[], %s::int[], %s::bigint[], %s::text[]) "
        b"on conflict (topic, partition) do update "
        b"set next_offset = excluded.next_offset, topic_id = excluded.topic_id",
        (topics, partitions, offsets, [ids.get(topic) for topic in topics]),
    )


def recreated_topics(conn: Connection, ids: Mapping[str, str]) -> list[str]:
    """Topics of the stream that Kafka has under another id now: the offsets are those of a topic
    that is gone. An id that was not known yet is remembered."""
    conn.execute(
        b"update headwater.stream s set topic_id = k.id "
        b"from unnest(%s::text[], %s::text[]) k (topic, id) "
        b"where s.topic = k.topic and s.topic_id is null and not exists ("
        b"select from headwater.stream t where t.topic = s.topic and t.topic_id <> k.id)",
        (list(ids), list(ids.values())),
    )
    query = (
        b"select distinct s.topic from headwater.stream s "
        b"join unnest(%s::text[], %s::text[]) k (topic, id) on k.topic = s.topic "
        b"where s.topic_id <> k.id order by 1"
    )
    return [topic for (topic,) in conn.execute(query, (list(ids), list(ids.values())))]


def remove_topics(conn: Connection, topics: Sequence[str]) -> None:
    """The stream goes on without them. The position keeps what they had counted for."""
    conn.execute(b"delete from headwater.stream where topic = any(%s)", (list(topics),))


def forget_offsets(conn: Connection, topics: Sequence[str]) -> None:
    """No batch has offsets of these topics any more: in the ones that Kafka has now, they are of
    other records."""
    query = (
        b"update headwater.batches set offsets = offsets - %s::text[] where offsets ?| %s::text[]"
    )
    conn.execute(query, (list(topics), list(topics)))


def offsets_of(conn: Connection, batches: Sequence[int]) -> dict[int, Offsets]:
    """Where the stream was after each of these batches, of those that are remembered."""
    query = b"select batch, offsets from headwater.batches where batch = any(%s)"
    rows = conn.execute(query, (list(batches),)).fetchall()
    return {batch: _from_json(held) for batch, held in rows}


def batch_with(conn: Connection, place: Place, offset: int) -> tuple[int, float] | None:
    """The batch that brought a record into the mirrors, and when, in seconds since 1970; None if
    none has, or it is not remembered."""
    topic, partition = place
    row = conn.execute(
        b"select batch, extract(epoch from applied_at)::float8, batch = 1 or batch > "
        b"(select min(batch) from headwater.batches) from headwater.batches "
        b"where (offsets -> %s ->> %s)::bigint > %s order by batch limit 1",
        (topic, str(partition), offset),
    ).fetchone()
    return None if row is None or not row[2] else (row[0], row[1])


def batch_at(conn: Connection, position: Position) -> tuple[int, float] | None:
    """The batch after which the mirrors had a position, as ``batch_with``."""
    row = conn.execute(
        b"select batch, extract(epoch from applied_at)::float8 from headwater.batches "
        b"where lsn = %s and total = %s",
        tuple(position),
    ).fetchone()
    return None if row is None else (row[0], row[1])


def forget_batches(conn: Connection, reached: int) -> None:
    """Forget batches that every view has reached, and those that are older than a view which has
    stood for long may ask for: its group is committed again when it has come to a newer one."""
    query = (
        b"delete from headwater.batches "
        b"where batch < greatest(%s, (select batch from headwater.progress) - %s)"
    )
    conn.execute(query, (reached - KEPT_BATCHES, MOST_BATCHES))


def _remember(conn: Connection, progress: Progress) -> Offsets:
    offsets = stream_offsets(conn)
    conn.execute(
        b"insert into headwater.batches (batch, lsn, total, offsets, applied_at) "
        b"values (%s, %s, %s, %s, clock_timestamp())",
        (progress.batch, progress.lsn, progress.total, Jsonb(offsets)),
        prepare=True,
    )
    return offsets


def _columns(offsets: Offsets) -> tuple[list[str], list[int], list[int]]:
    flat = [(topic, n, at) for topic, of_topic in offsets.items() for n, at in of_topic.items()]
    return [t for t, _, _ in flat], [n for _, n, _ in flat], [at for _, _, at in flat]


def _at(offsets: Offsets, topic: str, partition: int) -> int:
    return offsets.get(topic, {}).get(partition, -1)


def _from_json(held: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {topic: {int(n): at for n, at in of.items()} for topic, of in held.items()}
