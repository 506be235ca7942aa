"""Where a replay begins: what a person wrote after ``--from``, as offsets of a view's topics.

Earlier than asked for is always right, for what is applied again changes nothing; later never is.
So a search that cannot tell goes back further.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from cdc.errors import LogError, UsageError
from cdc.events.readers.records import Decode, payload
from cdc.kafka.broker import Broker, Offsets, Record
from cdc.lsn import Position, format_lsn, parse_lsn

_LOOK: Final = 500
"""Records that are read at one place to find a change: rows of a snapshot tell nothing."""

Probe: TypeAlias = Callable[[int, int], "int | None"]
"""The commit LSN of the first change from one offset up to another; None where there is none."""


class Beginning(NamedTuple):
    """Of the topics, as far as Kafka has them."""

    kind: Literal["beginning"] = "beginning"


class AtOffset(NamedTuple):
    """In every partition, or in one."""

    offset: int
    topic: str = ""
    partition: int = 0


class AtTime(NamedTuple):
    timestamp_ms: int


class AtLsn(NamedTuple):
    lsn: int


Place: TypeAlias = Beginning | AtOffset | AtTime | AtLsn


def parse_place(text: str) -> Place:
    """``beginning``, an LSN, a time (UTC unless it says otherwise), an offset, or
    TOPIC-PARTITION-OFFSET. Raises ``UsageError``."""
    said = text.strip()
    if said in ("beginning", "earliest"):
        return Beginning()
    if said.isdecimal():
        return AtOffset(int(said))
    if "/" in said:
        try:
            return AtLsn(parse_lsn(said))
        except ValueError:
            raise _unclear(text) from None
    try:
        at = datetime.fromisoformat(said)
    except ValueError:
        pass
    else:
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return AtTime(int(at.timestamp() * 1000))
    if (found := re.fullmatch(r"(.+)-(\d+)-(\d+)", said)) is not None:
        return AtOffset(int(found[3]), found[1], int(found[2]))
    raise _unclear(text)


def _unclear(text: str) -> UsageError:
    return UsageError(
        f"--from {text!r} is not a position",
        "write beginning, an LSN (0/16B3748), a time (2026-11-22T10:00Z), an offset, or "
        "TOPIC-PARTITION-OFFSET",
    )


def places(
    broker: Broker,
    topics: Iterable[str],
    wanted: Place,
    floor: Offsets,
    decode: Decode = payload,
) -> Offsets:
    """The offsets of a place, of the partitions it speaks of.

    ``floor`` is where the view's own stream begins: nothing before it matters; ``decode`` tells
    what a value says. Raises
    ``UsageError`` for a partition that is not the view's, and ``LogError`` when retention has
    removed what would be needed.
    """
    names = list(topics)
    kept, ends = broker.beginning_offsets(names), broker.end_offsets(names)
    if isinstance(wanted, AtOffset) and wanted.topic:
        if wanted.partition not in ends.get(wanted.topic, {}):
            known = ", ".join(f"{t}-{p}" for t, of_topic in ends.items() for p in sorted(of_topic))
            raise UsageError(
                f"the view does not read {wanted.topic}-{wanted.partition}",
                f"choose one of {known}",
            )
        names = [wanted.topic]
    since = broker.offsets_since(names, wanted.timestamp_ms) if isinstance(wanted, AtTime) else {}
    found: Offsets = {}
    for topic in names:
        for partition, end in ends[topic].items():
            if isinstance(wanted, AtOffset) and wanted.topic and partition != wanted.partition:
                continue
            low, begin = kept[topic][partition], floor.get(topic, {}).get(partition, 0)
            at = low
            if isinstance(wanted, AtOffset):
                at = wanted.offset
            elif isinstance(wanted, AtTime):
                at = since[topic][partition]
            elif isinstance(wanted, AtLsn):
                at = first_at(wanted.lsn, low, end, _probe(broker, topic, partition, decode))
            if not _is_kept(wanted, at, low, begin):
                raise _not_kept(broker, topic, partition, low, end, decode)
            found.setdefault(topic, {})[partition] = max(at, low, begin)
    return found


def first_at(lsn: int, low: int, end: int, probe: Probe) -> int:
    """An offset below which no change was committed at or after ``lsn``; the highest one, unless
    rows of snapshots stand around it. Pure but for ``probe``.

    Positions of changes rise in a partition. Those of a snapshot's rows among them do not.
    """
    size, high = 1, end
    while high > low:  # back from the end, in steps that double
        at = max(low, end - size)
        found = probe(at, high)
        if found is not None and found < lsn:
            break
        high, size = at, size * 2
    else:
        return low
    below = at
    while high - below > 1:
        middle = (below + high) // 2
        found = probe(middle, high)
        if found is not None and found < lsn:
            below = middle
        else:
            high = middle
    return high


def _probe(broker: Broker, topic: str, partition: int, decode: Decode) -> Probe:
    def look(start: int, stop: int) -> int | None:
        for record in broker.read(topic, partition, start, min(stop, start + _LOOK)):
            position = _position(record, decode)
            if position is not None and position.ordinal:
                return position.commit_lsn
        return None

    return look


def _position(record: Record, decode: Decode) -> Position | None:
    """Of an event; None for a tombstone, and for what is no event: a view's dead letter."""
    if record.value is None:
        return None
    try:
        source = decode(record.value)["source"]
        return Position(int(source["commit_lsn"]), int(source["ordinal"]))
    except (ValueError, KeyError, TypeError):
        return None


def _is_kept(wanted: Place, at: int, low: int, begin: int) -> bool:
    """Whether Kafka holds all that came after a place."""
    if isinstance(wanted, Beginning) or low <= begin or at > low:
        return True
    return isinstance(wanted, AtOffset) and at == low


def _not_kept(
    broker: Broker, topic: str, partition: int, low: int, end: int, decode: Decode
) -> LogError:
    """Of a partition of which Kafka holds what is at and above ``low``."""
    oldest = next(broker.read(topic, partition, low, end), None)
    place = f"{topic}-{partition} begins at offset {low:,}"
    if oldest is not None:
        at_time = datetime.fromtimestamp(oldest.timestamp_ms / 1000, UTC)
        place += f", {at_time.isoformat(timespec='seconds').replace('+00:00', 'Z')}"
        if (position := _position(oldest, decode)) is not None:
            place += f", LSN {format_lsn(position.commit_lsn)}"
    return LogError(
        f"retention has deleted records after that position: {place}",
        "use --from beginning to replay what Kafka still holds, --archive to read a view with "
        'history = "log", or run `headwater view rebuild`, which needs no history',
    )
