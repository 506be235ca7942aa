"""How many messages of each alert on rows wait as dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from cdc.kafka.broker import Broker
from cdc.topics import row_letters_topic


class LetterCounts:
    """Use from one thread. What was read once is not read again."""

    def __init__(self, source: str, broker: Broker) -> None:
        self._topic, self._broker = row_letters_topic(source), broker
        self._read_to = 0
        self._waiting = set[bytes]()

    def now(self) -> Mapping[str, int]:
        """By the names of alerts."""
        topic, broker = self._topic, self._broker
        if topic not in broker.partitions([topic]):
            return {}
        begin = broker.beginning_offsets([topic])[topic][0]
        end = broker.end_offsets([topic])[topic][0]
        if end < self._read_to:  # it was made anew
            self._read_to, self._waiting = 0, set()
        for record in broker.read(topic, 0, max(begin, self._read_to), end):
            if record.key is not None:
                (self._waiting.discard if record.value is None else self._waiting.add)(record.key)
        self._read_to = end
        return Counter(key.decode().partition(":")[0] for key in self._waiting)
