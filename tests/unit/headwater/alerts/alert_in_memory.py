"""One alert over a topic, letters and a receiver that are in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from email.message import Message as Headers
from urllib.error import HTTPError

from cdc.errors import RetryableError
from cdc.kafka.group_reader import Noted
from cdc.kafka.partition_reader import FetchedRecord
from headwater.alerts.counts import Counts
from headwater.alerts.delivery import Delivering, Settings
from headwater.alerts.kept import Kept, kept
from headwater.alerts.letters import Letter
from headwater.alerts.rule import Message
from tests.support.waiting import wait_until


class Topic:
    """Records that wait, and what was committed."""

    def __init__(self) -> None:
        self.waiting: deque[FetchedRecord] = deque()
        self.committed: dict[int, int] = {}
        self.notes: dict[int, str] = {}
        self.is_paused = False
        self.end = 0

    def write(self, *keys: str, value: bytes = b"x") -> None:
        for key in keys:
            self.waiting.append(FetchedRecord("t", 0, self.end, key.encode(), value))
            self.end += 1

    def read(self, timeout_s: float) -> list[FetchedRecord]:  # noqa: ARG002
        if self.is_paused or not self.waiting:
            return []
        return [self.waiting.popleft() for _ in range(min(5, len(self.waiting)))]

    def pause(self, is_paused: bool) -> None:
        self.is_paused = is_paused

    def commit(self, places: Mapping[int, Noted]) -> bool:
        self.committed |= {partition: place.offset for partition, place in places.items()}
        self.notes |= {partition: place.note for partition, place in places.items()}
        return True

    def note(self, partition: int) -> str:
        return self.notes.get(partition, "")

    def behind(self, reached: Mapping[int, int]) -> int:
        return self.end - reached.get(0, self.end)


class Box:
    """Letters in memory; ``is_away`` is Kafka."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.is_away = False

    def write(self, letter: Letter) -> None:
        if self.is_away:
            raise RetryableError("Kafka does not answer")
        self.letters.append(letter)

    def count(self, alert: str) -> int:
        return sum(one.alert == alert for one in self.letters)


class Receiver:
    """``answers`` gives an error for a message, or None; what was taken and asked is remembered."""

    def __init__(self) -> None:
        self.answers: Callable[[str], Exception | None] = lambda _: None
        self.taken: list[str] = []
        self.asked: list[str] = []
        self.at_once = 0
        self.gate = threading.Event()
        """While it is clear, nobody is answered."""
        self.gate.set()
        self._lock = threading.Lock()

    def send(self, message_id: str, body: bytes) -> None:
        del body
        with self._lock:
            self.asked.append(message_id)
            self.at_once += 1
        assert self.gate.wait(60)
        with self._lock:
            self.at_once -= 1
            if (error := self.answers(message_id)) is not None:
                raise error
            self.taken.append(message_id)


def refused(status: int) -> Exception:
    return HTTPError("http://x", status, "no", Headers(), None)


def message(place: str, key: bytes | None, value: bytes) -> Message | None:
    """``msg_KEY_OFFSET`` of what is not ``quiet``."""
    if value == b"quiet":
        return None
    said = "the event has no old row" if value == b"unsaid" else ""
    return Message(f"msg_{(key or b'').decode()}_{place.rpartition('-')[2]}", value, said)


class Alert:
    def __init__(self, give_up_s: float = 60.0) -> None:
        self.topic, self.box, self.receiver, self.counts = Topic(), Box(), Receiver(), Counts()
        settings = Settings("big", "t", 4, give_up_s, self.receiver.send, message, 0.01)
        self.delivering = Delivering(settings, self.box, self.counts)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def turned() -> bool:
            self.delivering.turn()
            return condition()

        wait_until(turned, what)

    def has_failed(self, count: int) -> bool:
        return self.counts.failed == count

    @property
    def told(self) -> Kept:
        """What is kept with the place."""
        return kept(self.topic.notes.get(0, "")) or Kept()

    def until_all(self, count: int) -> None:
        self.until(lambda: len(self.receiver.taken) == count, "all messages")


def order(taken: list[str], key: str) -> list[int]:
    return [int(one.rpartition("_")[2]) for one in taken if one.startswith(f"msg_{key}_")]
