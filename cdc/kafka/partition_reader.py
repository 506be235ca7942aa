"""Partitions of Kafka, read on and on by one client that fetches ahead.

Who calls says up to which offsets; what was fetched beyond is kept for the next call. The client
joins no group and commits nothing. ``cdc.kafka.range_reader`` reads what is much.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from time import monotonic
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cdc.errors import LogError, RetryableError
from cdc.kafka.broker import Offsets
from cdc.kafka.login import Login
from cdc.kafka.range_reader import consumed, reading
from cdc.kafka.security import PLAINTEXT, Security

_AT_ONCE: Final = 1_000
_POLL_S: Final = 0.25
_SILENT_S: Final = 20.0
"""A broker that gives nothing of what it has for so long is away."""
_MOST_BYTES: Final = 32 << 20
_SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "queued.min.messages": 10_000,
    "queued.max.messages.kbytes": 16_384,
    "topic.metadata.refresh.interval.ms": 300_000,
}
GONE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
ABSENT: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,
)  # fmt: skip
AWAY: Final = (
    KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE,
)  # fmt: skip
LOST_HINT: Final = (
    "run `headwater view rebuild` for the views of this table, and raise retention.ms of the "
    "topic: retention removed the record, or the topic was recreated"
)
_Place = tuple[str, int]


class FetchedRecord(NamedTuple):
    """A record; ``value`` None is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class PartitionReader:
    """Connected at the first call. Use from one thread at a time; close at the end."""

    def __init__(self, bootstrap_servers: str, security: Security = PLAINTEXT) -> None:
        self._bootstrap_servers, self._security = bootstrap_servers, security
        self._login = Login(security)
        self._client: Any = None
        self._next: dict[_Place, int] = {}
        self._fetched: dict[_Place, int] = {}
        self._held_bytes = 0
        self._ahead: defaultdict[_Place, deque[FetchedRecord]] = defaultdict(deque)

    def close(self) -> None:
        """Release connections. The next call would connect again."""
        client, self._client = self._client, None
        self._next = {}
        if client is not None:
            client.close()

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each topic has by now, 0 if there is none.

        Raises ``RetryableError`` where Kafka does not answer.
        """
        self._connect()
        with _answering("asking for partitions"):
            found = self._client.list_topics(timeout=_SILENT_S).topics
        return {topic: len(found[topic].partitions) if topic in found else 0 for topic in topics}

    def has_more(self, begin: Offsets, timeout_s: float) -> bool:
        """Whether any partition has a record at ``begin`` or behind, or ends behind offsets that
        hold none; waits for one.

        Raises ``LogError`` where Kafka no longer holds ``begin``.
        """
        self._go_to(begin)
        deadline = monotonic() + timeout_s
        while not any(self._fetched[place] > at for place, at in _places(begin).items()):
            left = deadline - monotonic()
            if left <= 0:
                return False
            self._fetch(min(left, _POLL_S))
        return True

    def ends(self, begin: Offsets) -> Offsets:
        """The offset behind the newest record of each partition that ``begin`` names, as far as the
        client knows: it hears of that with what it fetches. Call ``has_more`` before.

        Raises ``RetryableError`` where Kafka does not answer.
        """
        assert self._client is not None, "has_more comes first"
        found: Offsets = {}
        for place, at in _places(begin).items():
            end = self._high(place)
            found.setdefault(place[0], {})[place[1]] = max(at, end, self._fetched.get(place, 0))
        return found

    def _high(self, place: _Place) -> int:
        """Of a partition that nothing was fetched of yet Kafka is asked; -1 if there is none."""
        partition = TopicPartition(*place)
        _, high = self._client.get_watermark_offsets(partition, cached=True)
        if high >= 0:
            return int(high)
        with _answering(f"asking for the end of {place[0]}-{place[1]}"):
            try:
                return int(self._client.get_watermark_offsets(partition, timeout=_SILENT_S)[1])
            except KafkaException as exception:
                if exception.args[0].code() in ABSENT:
                    return -1
                raise

    def read(
        self, begin: Offsets, end: Offsets, most_bytes: int = _MOST_BYTES
    ) -> list[FetchedRecord] | None:
        """The records from ``begin`` up to, without it, ``end``, by partition and in order; offsets
        that hold no record are passed over. What ``begin`` does not name counts from 0. None where
        keys and values are more than ``most_bytes``.

        Raises ``LogError`` where Kafka no longer holds them, ``RetryableError`` where it does not
        answer.
        """
        self._go_to(begin, end)
        wanted = _places(end)
        found = self._taken(wanted) if self._fetch_until(wanted, most_bytes) else None
        if found is None or sum(map(_size, found)) > most_bytes:
            self._forget()  # whoever reads much reads it otherwise
            return None
        self._next |= wanted
        self._held_bytes = sum(map(_size, chain.from_iterable(self._ahead.values())))
        return found

    def _connect(self) -> None:
        if self._client is None:
            self._login = Login(self._security)
            settings = reading(self._bootstrap_servers, self._security)
            self._client = Consumer({**settings, **_SETTINGS, "error_cb": self._login})

    def _forget(self) -> None:
        self._next = {}
        self._ahead.clear()

    def _taken(self, wanted: dict[_Place, int]) -> list[FetchedRecord]:
        found = list[FetchedRecord]()
        for place, high in wanted.items():
            ahead = self._ahead[place]
            while ahead and ahead[0].offset < high:
                found.append(ahead.popleft())
        return found

    def _fetch_until(self, wanted: dict[_Place, int], most_bytes: int) -> bool:
        """Until all is there; whether it is no more than so much."""
        deadline = monotonic() + _SILENT_S
        left = {place: high for place, high in wanted.items() if self._fetched[place] < high}
        while left and self._held_bytes <= most_bytes:
            if self._fetch(_POLL_S):
                deadline = monotonic() + _SILENT_S
                left = {place: at for place, at in left.items() if self._fetched[place] < at}
            elif monotonic() > deadline:
                (topic, partition), high = next(iter(left.items()))
                raise RetryableError(
                    f"reading {topic}-{partition} at offset {self._fetched[topic, partition]} "
                    f"of {high}: Kafka has not answered for {_SILENT_S:.0f} s",
                    "check that Kafka is running",
                )
        return not left

    def _go_to(self, begin: Offsets, end: Offsets | None = None) -> None:
        """Fetch from ``begin`` on, unless that is where the last call ended."""
        unnamed = dict.fromkeys(_places(end or {}), 0)
        places = unnamed | _places(begin)
        if self._client is not None and places == self._next:
            return
        self._connect()
        self._client.assign([TopicPartition(*place, at) for place, at in places.items()])
        self._next, self._fetched = dict(places), dict(places)
        self._ahead.clear()
        self._held_bytes = 0

    def _fetch(self, timeout_s: float) -> bool:
        """Keep what is there, or comes soon; whether something did."""
        self._login.renew(self._client)
        messages = consumed(self._client, _AT_ONCE, timeout_s)
        moved = False
        for message in messages:
            place = (message.topic(), message.partition())
            if (error := message.error()) is None:
                offset = message.offset()
                record = FetchedRecord(*place, offset, message.key(), message.value())
                self._ahead[place].append(record)
                self._held_bytes += _size(record)
                self._fetched[place], moved = offset + 1, True
            elif error.code() == KafkaError._PARTITION_EOF:
                self._fetched[place], moved = max(self._fetched[place], message.offset()), True
            elif place[0] is not None and not error.retriable():
                self._forget()  # what was given with it is fetched again
                raise self._fault(place, error)
        return moved

    def _fault(self, place: _Place, error: KafkaError) -> LogError:
        topic, partition = place
        at = f"{topic}-{partition} at offset {self._fetched.get(place, 0)}"
        if error.code() in GONE:
            return lost(topic, partition, self._fetched.get(place, 0))
        return LogError(f"reading {at}: {error.str()}")


@contextmanager
def _answering(doing: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as exception:
        error: KafkaError = exception.args[0]
        if error.retriable() or error.code() in AWAY:
            message = f"{doing}: Kafka does not answer ({error.str()})"
            raise RetryableError(message, "check that Kafka is running") from None
        raise LogError(f"{doing}: {error.str()}") from None


def lost(topic: str, partition: int, offset: int) -> LogError:
    """The error for an offset that was to be read next and is not in Kafka any more."""
    return LogError(
        f"{topic}-{partition}: Kafka no longer holds offset {offset}, the next one to read",
        LOST_HINT,
    )


def _size(record: FetchedRecord) -> int:
    return len(record.value or b"") + len(record.key or b"")


def _places(offsets: Offsets) -> dict[_Place, int]:
    return dict(_each(offsets))


def _each(offsets: Offsets) -> Iterator[tuple[_Place, int]]:
    for topic, of_topic in offsets.items():
        for partition, at in of_topic.items():
            yield (topic, partition), at
