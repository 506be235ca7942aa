"""One alert on rows: a thread that reads, some that send, and what is done with each answer.

It shares nothing with the event loop of `headwater serve`. An offset is committed when all before
it was delivered or is a dead letter, so a crash repeats messages, with their ids, and loses none.
Messages of other keys do not wait for one that the receiver refuses. Where nobody answers, or the
receiver asks for less, all wait, and one is sent to try, of another key each time; if others are
taken while one is not, that one waits alone. Only time in which the receiver answers counts for
giving up.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, Protocol

import structlog

from cdc.alarms.sender import REFUSALS, reason_of, status_of
from cdc.errors import RetryableError
from cdc.kafka.group_reader import Noted
from cdc.kafka.partition_reader import FetchedRecord
from cdc.log_events import LogEvent
from headwater.alerts.counts import Counts
from headwater.alerts.kept import Kept, kept
from headwater.alerts.letters import Letter
from headwater.alerts.queue import Delivery, Queue
from headwater.alerts.rule import Message

MOST_LETTERS: Final = 1_000
FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 300.0
_READ_S: Final = 0.25
_ANSWERS_S: Final = 0.05
_COMMIT_S: Final = 1.0
_REVOKED_S: Final = 15.0
"""For messages under way when a partition goes: longer than a receiver is waited for."""
_STOP_S: Final = 5.0
_HELD_PAUSES: Final = 12
"""First pauses between two looks for room: they count all dead letters."""
_GONE: Final = 410
_TOO_MANY: Final = 429
_THROTTLED: Final = (_TOO_MANY, 502, 503, 504)
"""Answers by which a receiver asks for less, or somebody before it says that it is away."""

log = structlog.get_logger("serve")


class Reader(Protocol):
    def read(self, timeout_s: float) -> list[FetchedRecord]: ...
    def pause(self, is_paused: bool) -> None: ...
    def commit(self, places: Mapping[int, Noted]) -> bool: ...
    def note(self, partition: int) -> str: ...
    def behind(self, reached: Mapping[int, int]) -> int: ...


class Letters(Protocol):
    def write(self, letter: Letter) -> None: ...
    def count(self, alert: str) -> int: ...


class Settings(NamedTuple):
    """``send`` raises one of ``REFUSALS`` where a message was not taken."""

    name: str
    topic: str
    at_once: int
    give_up_s: float
    send: Callable[[str, bytes], None]
    message: Callable[[str, bytes | None, bytes], Message | None]
    first_pause_s: float = FIRST_PAUSE_S


class _Answer(NamedTuple):
    """``reason`` is empty where the message was taken, ``status`` None where nobody answered."""

    delivery: Delivery
    reason: str = ""
    status: int | None = None


class Delivering:
    """Deliveries of one alert, from when its topic is joined until it is left. Use from the thread
    of the alert."""

    def __init__(self, settings: Settings, letters: Letters, counts: Counts) -> None:
        self._settings, self._letters, self._counts = settings, letters, counts
        self._queue = Queue()
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(settings.at_once, f"alert {settings.name}")
        self._under_way = 0
        self._all_pause_s = self._all_until = 0.0
        self._answered = 0
        """Answers of the receiver itself."""
        self._room = 0
        self._held: tuple[Delivery, str] | None = None
        """A dead letter for which there is no room, and its cause: nothing is sent meanwhile."""
        self._held_until = 0.0
        self._committed: dict[int, Noted] = {}
        self._commit_at = 0.0
        self._is_over = False
        self.reader: Reader | None = None

    @contextmanager
    def reading(self, reader: Reader) -> Iterator[None]:
        """It may be closed behind that: all that is under way has ended, or took too long."""
        self.reader = reader
        try:
            yield
            self._settle(_STOP_S)
            self._is_over = True
        except BaseException:  # what is under way must not meet what is sent anew
            self._drain(_REVOKED_S)
            raise
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def turn(self) -> None:
        """Read what there is, send what may be sent, take the answers, commit. Waits a moment where
        there is nothing to do. Raises ``HeadwaterError``."""
        assert self.reader is not None, "in reading()"
        self.reader.pause(self._queue.is_full)
        for record in self.reader.read(0 if self._under_way else _READ_S):
            self._take(record)
        self._dispatch()
        if self._under_way:
            self._hear(_ANSWERS_S)
            self._dispatch()
        if time.monotonic() >= self._commit_at:
            self.commit()

    def commit(self) -> None:
        assert self.reader is not None, "in reading()"
        self._commit_at = time.monotonic() + _COMMIT_S
        reached = self._queue.commits()
        at_ms = self._counts.sent_ms
        places = {p: Noted(at, self._queue.kept(p, at_ms).note) for p, at in reached.items()}
        moved = {p: one for p, one in places.items() if self._committed.get(p) != one}
        if moved and self.reader.commit(moved):
            self._committed |= moved
        self._counts.lag = self.reader.behind(reached)

    def revoked(self, partitions: Collection[int], is_lost: bool) -> None:
        """Somebody else goes on with these. What is under way has ended by then, so that order by
        key holds, unless the partitions were lost already."""
        if not is_lost and not self._is_over:
            with suppress(RetryableError):  # else it is sent twice, with the same id
                self._settle(_REVOKED_S)
        self._queue.drop(partitions)
        if self._held is not None and self._held[0].partition in partitions:
            self._held = None
        for partition in partitions:
            self._committed.pop(partition, None)

    def _settle(self, patience_s: float) -> None:
        """Wait for what is under way, and commit."""
        self._drain(patience_s)
        self.commit()

    def _drain(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while self._under_way and time.monotonic() < deadline:
            self._hear(_ANSWERS_S)

    def _take(self, record: FetchedRecord) -> None:
        assert self.reader is not None, "in reading()"
        message, partition = None, record.partition
        if not self._queue.knows(partition):
            self._queue.resume(partition, kept(self.reader.note(partition)) or Kept())
        if record.value is not None and not self._queue.is_done(partition, record.offset):
            place = f"{record.topic}-{record.partition}-{record.offset}"
            message = self._settings.message(place, record.key, record.value)
        self._queue.passed(record.partition, record.offset)
        if message is not None:
            self._queue.add(
                Delivery(record.partition, record.offset, record.key, message.id, message.body,
                         message.refused, time.monotonic())
            )  # fmt: skip

    def _dispatch(self) -> None:
        """A receiver that was away is asked with one message first."""
        if not self._has_room():
            return
        most = 1 if self._all_pause_s else self._settings.at_once
        while self._under_way < most and time.monotonic() >= self._all_until:
            delivery = self._queue.take(time.monotonic())
            if delivery is None:
                return
            if delivery.refused:
                self._put_aside(delivery, delivery.refused)
                if self._held is not None:
                    return
                continue
            self._under_way += 1
            self._pool.submit(self._send, delivery)

    def _send(self, delivery: Delivery) -> None:
        """On a thread of the pool."""
        try:
            self._settings.send(delivery.id, delivery.body)
            answer = _Answer(delivery)
        except REFUSALS as error:
            answer = _Answer(delivery, reason_of(error), status_of(error))
        except Exception as error:  # a bug must not leave a delivery that nobody ends
            answer = _Answer(delivery, repr(error))
        self._answers.put(answer)

    def _hear(self, timeout_s: float) -> None:
        """Take the answers that are there, and wait for one."""
        with suppress(queue.Empty):
            self._judge(self._answers.get(timeout=timeout_s))
            while True:
                self._judge(self._answers.get_nowait())

    def _judge(self, answer: _Answer) -> None:
        self._under_way -= 1
        delivery, now_s = answer.delivery, time.monotonic()
        is_own = answer.status is not None and answer.status not in _THROTTLED
        if is_own or not answer.reason:
            self._answered += 1
            self._all_pause_s = 0.0
        if not answer.reason:
            self._counts.sent += 1
            self._counts.sent_ms = time.time_ns() // 1_000_000
            self._queue.done(delivery)
            return
        self._counts.failed += 1
        delivery.attempts += 1
        others = delivery.answered is not None and self._answered > delivery.answered
        is_refused = is_own or (others and answer.status != _TOO_MANY)
        _age(delivery, is_refused, now_s)
        if answer.status == _GONE or (
            is_refused and delivery.refused_for_s >= self._settings.give_up_s
        ):
            self._put_aside(delivery, answer.reason)
            return
        if not is_own:
            delivery.answered = self._answered
            delivery.is_alone |= is_refused
        is_alone = is_own or (delivery.is_alone and answer.status != _TOO_MANY)
        again_s = self._pause(delivery) if is_alone else self._pause_all(delivery)
        log.warning(LogEvent.ROW_ALERT_NOT_SENT, alert=self._settings.name, id=delivery.id,
                    reason=answer.reason, again_in_s=again_s)  # fmt: skip

    def _pause(self, delivery: Delivery) -> float:
        """Have it wait, alone; for how long."""
        doubled_s = self._settings.first_pause_s * 2.0 ** min(delivery.attempts - 1, 30)
        pause_s = min(doubled_s, LONGEST_PAUSE_S)
        self._queue.again(delivery, time.monotonic() + pause_s)
        return pause_s

    def _pause_all(self, delivery: Delivery) -> float:
        """Have all wait, for the receiver is away; for how long."""
        first_s, now_s = self._settings.first_pause_s, time.monotonic()
        if now_s >= self._all_until:  # others that were under way tell the same
            self._all_pause_s = min(2 * self._all_pause_s or first_s, LONGEST_PAUSE_S)
            self._all_until = now_s + self._all_pause_s
        self._queue.again(delivery, now_s)  # behind the others, one of which is sent to try
        return max(0.0, self._all_until - now_s)

    def _has_room(self) -> bool:
        """Whether nothing is held; what is, becomes a dead letter if there is room by now."""
        if self._held is not None and time.monotonic() >= self._held_until:
            held, self._held = self._held, None
            self._put_aside(*held)
        return self._held is None

    def _put_aside(self, delivery: Delivery, cause: str) -> None:
        """Make it a dead letter; while too many of those wait, all wait."""
        name = self._settings.name
        if self._room <= 0:
            self._room = MOST_LETTERS - self._letters.count(name)
        if self._room <= 0:
            if self._held is not None:
                self._queue.again(delivery, time.monotonic())  # it is sent again
                return
            self._held = delivery, cause
            self._held_until = time.monotonic() + _HELD_PAUSES * self._settings.first_pause_s
            log.error(LogEvent.ROW_ALERT_HELD, alert=name, dead_letters=MOST_LETTERS, cause=cause)
            return
        place = f"{self._settings.topic}-{delivery.partition}-{delivery.offset}"
        key = None if delivery.key is None else delivery.key.decode(errors="replace")
        self._letters.write(Letter(name, delivery.id, key, place, cause, delivery.body))
        self._room -= 1
        self._counts.letters += 1
        self._queue.done(delivery)
        log.error(LogEvent.ROW_ALERT_DEAD_LETTER, alert=name, id=delivery.id, at=place, cause=cause)


def _age(delivery: Delivery, is_refused: bool, now_s: float) -> None:
    """Count the time between two refusals."""
    if is_refused and delivery.refused_s is not None:
        delivery.refused_for_s += now_s - delivery.refused_s
    delivery.refused_s = now_s if is_refused else None
