"""The dead letters of a view's generation, in Kafka: ``dead_letters.letter`` says what they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from cdc.config import Config
from cdc.errors import ViewError
from cdc.events.records import Record
from cdc.kafka.broker import Broker, TopicSpec
from cdc.kafka.bulk_producer import BulkProducer
from cdc.topics import view_dead_letters_topic
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import ViewState, generation_id, state_directory, view_directory
from jobs.without_mirrors.dead_letters.letter import (
    Letter,
    Letters,
    by_generation,
    letter_record,
    settled_record,
)

_BESIDE_BYTES = 64 << 10
"""What a letter may weigh more than its event: headers, and the key twice."""
_REMEMBER_MS = 7 * 24 * 3_600_000
"""A batch that comes again finds what of it is settled for so long."""
_LARGEST = 1_000_000
"""The least a topic of letters takes, in bytes: what capture sends unless told otherwise."""


def read_letters(broker: Broker, view: str, values: bool = False) -> dict[str, Letters]:
    """The letters of a view by generation; nothing while there is no topic."""
    topic = view_dead_letters_topic(view)
    return _upto(broker, topic, _end(broker, topic), values)


def _end(broker: Broker, topic: str) -> int:
    """0 while there is no topic."""
    if topic not in broker.partitions([topic]):
        return 0
    return broker.end_offsets([topic])[topic][0]


def _upto(broker: Broker, topic: str, end: int, values: bool) -> dict[str, Letters]:
    if not end:
        return {}
    start = broker.beginning_offsets([topic])[topic][0]
    return by_generation(broker.read(topic, 0, start, end), values)


def waiting(config: Config, broker: Broker, name: str, values: bool = False) -> Letters:
    """The dead letters of the generation that people read.

    Where this machine does not have the view's state, those of all its generations.
    """
    found = read_letters(broker, name, values)
    directory = view_directory(config.apply.state, config.source.name, name)
    number = read_generations(directory).live_number
    generation = generation_id(state_directory(directory, number))
    if generation is not None:
        return found.get(generation, Letters())
    letters = Letters()
    for one in found.values():
        letters.open.update(one.open)
    return letters


def forget_letters(config: Config, view: str, directory: Path, broker: Broker) -> None:
    """Settle what is left of a generation that is being dropped."""
    generation = generation_id(directory)
    found = read_letters(broker, view)
    if generation in found and found[generation].open:
        with closing(LetterBox(config, view, ViewState(directory, generation))) as box:
            box.settle(list(found[generation].open), 0)


def drop_letters(broker: Broker, view: str) -> None:
    """Delete all of a view's, with their topic."""
    broker.delete_topics([view_dead_letters_topic(view)])


class LetterBox:
    """Reads and writes one generation's. Whoever holds the view's stream is the only writer."""

    def __init__(self, config: Config, view: str, state: ViewState) -> None:
        self._config, self._view, self._state = config, view, state
        self._broker = Broker(config.kafka.bootstrap_servers, config.kafka)  # of another thread
        self._topic = view_dead_letters_topic(view)
        self._producer: BulkProducer | None = None

    def close(self) -> None:
        """Release connections."""
        self._broker.close()
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def read(self, values: bool = False) -> Letters:
        """What is open and what is settled. Raises ``ViewError`` when letters are gone."""
        remembered, parked = self._state.letters()
        end = self._end()
        if parked and end < remembered:
            raise ViewError(
                f"view {self._view}: Kafka no longer holds the dead letters of its {parked} "
                f"parked keys: topic {self._topic} was deleted or recreated",
                f"run `headwater view rebuild {self._view}`",
            )
        found = _upto(self._broker, self._topic, end, values)
        return found.get(self._state.generation, Letters())

    def write(self, letters: Sequence[Letter], parked: int) -> None:
        """Durable when it returns; ``parked`` keys are, with these."""
        self._create()
        self._state.remember_letters(self._end(), parked)
        self._send(letter_record(self._state.generation, letter) for letter in letters)
        self._state.remember_letters(self._end(), parked)

    def settle(self, ids: Iterable[str], parked: int) -> None:
        """These wait no more; ``parked`` keys are left."""
        self._send(settled_record(self._state.generation, id_) for id_ in ids)
        self._state.remember_letters(self._end(), parked)

    def _create(self) -> None:
        config = {
            "cleanup.policy": "compact",
            "delete.retention.ms": str(_REMEMBER_MS),
            "max.message.bytes": str(self._largest()),
        }
        factor = self._config.kafka.replication_factor
        self._broker.create_topics([TopicSpec(self._topic, 1, factor, config)])

    def _send(self, records: Iterable[Record]) -> None:
        kafka = self._config.kafka
        if self._producer is None:
            settings = {**kafka.producer, "message.max.bytes": self._largest()}
            self._producer = BulkProducer(kafka.bootstrap_servers, settings, security=kafka)
        self._producer.send_records(self._topic, records)
        self._producer.flush()

    def _largest(self) -> int:
        """What the largest letter may weigh: an event that Kafka took, and what is said of it."""
        taken = int(self._config.kafka.producer.get("message.max.bytes", _LARGEST))
        return max(taken, _LARGEST) + _BESIDE_BYTES

    def _end(self) -> int:
        return _end(self._broker, self._topic)
