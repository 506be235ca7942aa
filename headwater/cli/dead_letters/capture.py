"""Dead letters of capture and of snapshots: records that were too large for Kafka, whole again."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from cdc.errors import LogError
from cdc.plural import plural
from cdc.topics import dead_letters_topic
from headwater.cli.dead_letters.entry import Entry
from headwater.cli.dead_letters.registry_values import in_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cdc.config import Config
    from cdc.events.capture_dead_letters import DeadLetter
    from cdc.kafka.broker import Broker

ID: Final = re.compile(r"[0-9A-F]{24}(-\d+)?", re.IGNORECASE)
"""The position of a record; rows of a snapshot share theirs, and are numbered from the second."""


class Span(NamedTuple):
    """The records of the topic; of one that was made anew, ``topic_id`` is another. Brokers before
    Kafka 2.8 have none: it is "" then."""

    topic: str
    topic_id: str
    start: int
    end: int


def entries(config: Config) -> list[Entry]:
    """All of a source's, in the order they became whole, without values and headers."""
    return [listed(one) for one in _numbered(config)]


class Listing:
    """The list for a process that shows it again and again: the topic is read anew only when it
    has other records. Use from one thread at a time."""

    def __init__(self) -> None:
        self._span: Span | None = None
        self._found: list[Entry] = []

    def entries(self, config: Config) -> list[Entry]:
        """As ``entries``."""
        with _broker(config) as broker:
            return self.at(_span(broker, config), lambda span: _in_span(config, broker, span))

    def at(self, span: Span | None, read: Callable[[Span], Iterable[Entry]]) -> list[Entry]:
        """``read`` gives what stands there. Pure."""
        if span is None or span != self._span:
            found = [listed(one) for one in read(span)] if span is not None else []
            # A key that its registry did not tell is asked for again.
            is_told = not any((one.key or "").startswith("\0") for one in found)
            self._span, self._found = span if is_told else None, found
        return self._found


def entry(config: Config, wanted: str) -> Entry:
    """One with its value. Raises ``LogError`` when there is none, or pieces are missing."""
    for one in _numbered(config):  # one value is held at most
        if one.id == wanted.upper():
            if missing := one.facts["missing"]:
                raise LogError(
                    f"{missing} pieces of the record at {wanted} are not in Kafka",
                    "try again: they are still being written, unless retention deleted them",
                )
            return one
    raise LogError(f"there is no dead letter {wanted}", "run `headwater dead-letters list`")


def listed(one: Entry) -> Entry:
    """What a list has of it."""
    facts = {name: fact for name, fact in one.facts.items() if name != "headers"}
    return one._replace(value=b"", facts=facts)


def _numbered(config: Config) -> Iterator[Entry]:
    with _broker(config) as broker:
        if (span := _span(broker, config)) is not None:
            yield from _in_span(config, broker, span)


def _in_span(config: Config, broker: Broker, span: Span) -> Iterator[Entry]:
    met: Counter[str] = Counter()
    for letter in _read(config, broker, span):
        position = letter.position.hex()
        met[position] += 1
        yield told(letter, met[position])


def told(letter: DeadLetter, number: int = 1) -> Entry:
    """The ``number``-th record of its position."""
    position, cause = letter.position.hex(), letter.cause
    if letter.missing:
        cause += f"; {plural(letter.missing, 'piece')} missing"
    return Entry(
        position if number == 1 else f"{position}-{number}",
        "",
        letter.topic,
        None if letter.key is None else letter.key.decode(errors="replace"),
        cause,
        datetime.fromtimestamp(letter.timestamp_ms / 1000, UTC),
        {
            "position": position,
            "bytes": len(letter.value),
            "missing": letter.missing,
            "headers": {
                name: None if text is None else text.decode(errors="replace")
                for name, text in letter.headers
            },
        },
        letter.value,
    )


def _broker(config: Config) -> Broker:
    from cdc.kafka.broker import Broker

    return Broker(config.kafka.bootstrap_servers, config.kafka)


def _span(broker: Broker, config: Config) -> Span | None:
    """None without the topic."""
    topic = dead_letters_topic(config.source.name)
    if topic not in broker.partitions([topic]):
        return None
    topic_id = broker.topic_ids([topic]).get(topic, "")
    start = broker.beginning_offsets([topic])[topic][0]
    return Span(topic, topic_id, start, broker.end_offsets([topic])[topic][0])


def _read(config: Config, broker: Broker, span: Span) -> Iterator[DeadLetter]:
    from cdc.events.capture_dead_letters import whole
    from cdc.registry.schemas import registry_of

    registry = registry_of(config)
    for letter in whole(broker.read(span.topic, 0, span.start, span.end)):
        key = None if letter.key is None else in_json(registry, letter.key)
        yield letter._replace(key=key)
