"""Dead letters of capture and of snapshots: records that were too large for Kafka, whole again."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cdc.errors import LogError
from headwater.cli.dead_letters.entry import Entry
from headwater.cli.dead_letters.registry_values import in_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdc.config import Config
    from cdc.events.capture_dead_letters import DeadLetter

ID: Final = re.compile(r"[0-9A-F]{24}(-\d+)?", re.IGNORECASE)
"""The position of a record; rows of a snapshot share theirs, and are numbered from the second."""


def entries(config: Config) -> list[Entry]:
    """All of a source's, in the order they became whole, without values and headers."""
    return [listed(one) for one in _numbered(config)]


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
    met: Counter[str] = Counter()
    for letter in _read(config):
        position = letter.position.hex()
        met[position] += 1
        yield told(letter, met[position])


def told(letter: DeadLetter, number: int = 1) -> Entry:
    """The ``number``-th record of its position."""
    position, cause = letter.position.hex(), letter.cause
    if letter.missing:
        cause += f"; {letter.missing} piece{'s' * (letter.missing > 1)} missing"
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
            "headers": {name: text.decode(errors="replace") for name, text in letter.headers},
        },
        letter.value,
    )


def _read(config: Config) -> Iterator[DeadLetter]:
    from cdc.events.capture_dead_letters import whole
    from cdc.kafka.broker import Broker
    from cdc.registry.schemas import registry_of
    from cdc.topics import dead_letters_topic

    topic, registry = dead_letters_topic(config.source.name), registry_of(config)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        if topic in broker.partitions([topic]):
            start = broker.beginning_offsets([topic])[topic][0]
            end = broker.end_offsets([topic])[topic][0]
            for letter in whole(broker.read(topic, 0, start, end)):
                key = None if letter.key is None else in_json(registry, letter.key)
                yield letter._replace(key=key)
