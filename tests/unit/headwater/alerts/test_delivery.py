"""One alert over a topic, letters and a receiver that are in memory: what is sent, when, and what
is committed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from email.message import Message as Headers
from functools import partial
from urllib.error import HTTPError, URLError

import pytest

from cdc.errors import RetryableError
from cdc.kafka.group_reader import Noted
from cdc.kafka.partition_reader import FetchedRecord
from headwater.alerts import delivery as module
from headwater.alerts.counts import Counts
from headwater.alerts.delivery import Delivering, Settings
from headwater.alerts.kept import kept
from headwater.alerts.letters import Letter, letter_record, opened
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

    def until_all(self, count: int) -> None:
        self.until(lambda: len(self.receiver.taken) == count, "all messages")


@pytest.fixture
def alert() -> Alert:
    return Alert()


def order(taken: list[str], key: str) -> list[int]:
    return [int(one.rpartition("_")[2]) for one in taken if one.startswith(f"msg_{key}_")]


def test_all_is_sent_in_order_by_key_by_some_at_once_and_committed(alert: Alert) -> None:
    alert.topic.write(*"abcabcaabbcc")
    alert.topic.write("a", value=b"quiet")
    alert.receiver.gate.clear()
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: alert.receiver.at_once == 3, "the first message of each key")
        alert.receiver.gate.set()
        alert.until_all(12)
    for key in "abc":
        assert order(alert.receiver.taken, key) == sorted(order(alert.receiver.taken, key))
    assert alert.topic.committed == {0: 13}
    assert alert.counts.lag == 0
    assert (alert.counts.sent, alert.counts.failed) == (12, 0)


@pytest.mark.parametrize("status", [400, 404, 500, 302])
def test_what_is_refused_holds_up_its_key_alone_and_nothing_behind_it_is_committed(
    alert: Alert, status: int
) -> None:
    alert.receiver.answers = lambda id_: refused(status) if id_ == "msg_a_0" else None
    alert.topic.write(*"abacb")
    with alert.delivering.reading(alert.topic):
        alert.until_all(3)
        alert.delivering.commit()
        assert alert.topic.committed == {0: 0}
        alert.receiver.answers = lambda _: None
        alert.until_all(5)
    assert order(alert.receiver.taken, "a") == [0, 2]
    assert alert.topic.committed == {0: 5}
    assert alert.counts.failed >= 1


@pytest.mark.parametrize("error", [URLError("refused"), TimeoutError(), refused(503), refused(429)])
def test_a_receiver_that_is_away_is_asked_with_one_message_at_a_time_of_another_key_each(
    alert: Alert, error: Exception
) -> None:
    def away(_: str) -> Exception:
        return error

    alert.receiver.answers = away
    alert.topic.write(*"abcde")
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: alert.counts.failed == 4, "those that are sent at first")
        for failed in range(5, 10):
            alert.receiver.gate.clear()
            alert.until(lambda: alert.receiver.at_once > 0, "the next attempt")
            alert.delivering.turn()
            assert alert.receiver.at_once == 1
            alert.receiver.gate.set()
            alert.until(partial(alert.has_failed, failed), "its answer")
        assert alert.receiver.asked[4] == "msg_e_4"
        assert set(alert.receiver.asked[4:]) == {f"msg_{k}_{at}" for at, k in enumerate("abcde")}
        alert.receiver.answers = lambda _: None
        alert.until_all(5)
    assert alert.box.letters == []


@pytest.mark.parametrize("error", [URLError("reset"), TimeoutError(), refused(502), refused(504)])
def test_a_message_that_nobody_takes_while_others_are_taken_waits_alone(
    alert: Alert, error: Exception
) -> None:
    alert.receiver.answers = lambda id_: error if id_ == "msg_a_0" else None
    alert.topic.write(*"abcdefghia")
    with alert.delivering.reading(alert.topic):
        alert.until_all(8)
        attempts = alert.receiver.asked.count("msg_a_0")
        alert.until(lambda: alert.receiver.asked.count("msg_a_0") > attempts, "another attempt")
        alert.topic.write(*"bcdefghi")
        alert.until_all(16)
        assert order(alert.receiver.taken, "a") == []
        alert.delivering.commit()
        assert alert.topic.committed == {0: 0}
        alert.receiver.answers = lambda _: None
        alert.until_all(18)
    assert order(alert.receiver.taken, "a") == [0, 9]
    assert alert.box.letters == []


def test_a_message_that_nobody_takes_while_others_are_taken_is_a_dead_letter_in_the_end() -> None:
    alert = Alert(give_up_s=0.05)
    alert.receiver.answers = lambda id_: refused(502) if id_ == "msg_a_0" else None
    alert.topic.write(*"aa")

    def given_up() -> bool:
        if not alert.topic.waiting:
            alert.topic.write("b")
        return bool(alert.box.letters)

    with alert.delivering.reading(alert.topic):
        alert.until(given_up, "the dead letter")
        alert.until(lambda: order(alert.receiver.taken, "a") == [1], "the next of its key")
    assert [one.id for one in alert.box.letters] == ["msg_a_0"]


@pytest.mark.parametrize("first", [refused(503), refused(400), refused(429)])
def test_time_in_which_the_receiver_is_away_gives_nothing_up(first: Exception) -> None:
    alert = Alert(give_up_s=0.1)
    alert.receiver.answers = lambda _: first
    alert.topic.write(*"aab")
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: alert.counts.failed >= 2, "the first answers")
        alert.receiver.answers = lambda _: URLError("refused")
        away_s = time.monotonic() + 0.25
        alert.until(lambda: time.monotonic() > away_s, "a time longer than that of giving up")
        alert.receiver.answers = lambda _: None
        alert.until_all(3)
    assert alert.box.letters == []
    assert order(alert.receiver.taken, "a") == [0, 1]


def test_after_some_time_a_message_is_a_dead_letter_and_its_key_goes_on() -> None:
    alert = Alert(give_up_s=0.05)
    alert.receiver.answers = lambda id_: refused(400) if id_ == "msg_a_0" else None
    alert.topic.write(*"aab")
    with alert.delivering.reading(alert.topic):
        alert.until_all(2)
    (letter,) = alert.box.letters
    assert (letter.id, letter.key, letter.place) == ("msg_a_0", "a", "t-0-0")
    assert (letter.cause, letter.body) == ("answered 400", b"x")
    assert alert.topic.committed == {0: 3}
    assert alert.counts.letters == 1


def test_a_receiver_that_is_gone_for_good_is_not_asked_again(alert: Alert) -> None:
    alert.receiver.answers = lambda _: refused(410)
    alert.topic.write("a")
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: bool(alert.box.letters), "the dead letter")
    assert alert.receiver.asked == ["msg_a_0"]


def test_what_nobody_can_decide_is_put_aside_in_its_turn(alert: Alert) -> None:
    alert.topic.write("a")
    alert.topic.write("a", value=b"unsaid")
    alert.topic.write("a")
    with alert.delivering.reading(alert.topic):
        alert.until_all(2)
    assert [one.cause for one in alert.box.letters] == ["the event has no old row"]
    assert order(alert.receiver.taken, "a") == [0, 2]


def test_with_too_many_dead_letters_all_waits_until_some_are_settled(
    alert: Alert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LETTERS", 2)
    alert.topic.write(*"abc", value=b"unsaid")
    alert.topic.write(*"de")
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: len(alert.box.letters) == 2, "two letters")
        for _ in range(20):
            alert.delivering.turn()
        alert.delivering.commit()
        assert (len(alert.box.letters), alert.topic.committed) == (2, {0: 2})
        assert alert.receiver.asked == []
        alert.box.letters.clear()
        alert.until_all(2)
    assert [one.id for one in alert.box.letters] == ["msg_c_2"]
    assert alert.topic.committed == {0: 5}


def test_what_is_held_goes_with_its_partition(
    alert: Alert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LETTERS", 0)
    alert.topic.write("a", value=b"unsaid")
    alert.topic.write("b")
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: not alert.topic.waiting, "them to be read")
        alert.delivering.revoked([0], False)
        alert.topic.end = 0
        alert.topic.write("c")
        alert.until_all(1)
    assert (alert.receiver.taken, alert.box.letters) == (["msg_c_0"], [])


def test_a_letter_that_cannot_be_written_is_not_committed(alert: Alert) -> None:
    alert.box.is_away = True
    alert.topic.write("a", value=b"unsaid")
    with pytest.raises(RetryableError), alert.delivering.reading(alert.topic):
        alert.until(lambda: False, "the fault")
    assert alert.topic.committed.get(0, 0) == 0


def test_a_partition_goes_when_what_is_under_way_has_ended(alert: Alert) -> None:
    alert.topic.write(*"abc")
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: bool(alert.receiver.asked), "the first")
        alert.delivering.revoked([0], False)
        taken = len(alert.receiver.taken)
        assert alert.receiver.at_once == 0
        assert alert.topic.committed[0] <= taken
        for _ in range(5):
            alert.delivering.turn()
        assert alert.receiver.at_once == 0


def test_letters_are_those_that_no_later_record_settles() -> None:
    class Stored:
        def __init__(self, letter: Letter, is_settled: bool = False) -> None:
            record = letter_record(letter)
            self.key = record["key"]
            self.value = None if is_settled else record["value"]
            self.headers = [] if is_settled else record["headers"]
            self.timestamp_ms = 5

    one = Letter("big", "msg_1", '{"id":7}', "t-0-5", "answered 400", b"{}")
    other = one._replace(id="msg_2", key=None)
    found = opened([Stored(one), Stored(other), Stored(one, True)])
    assert found == [other._replace(since_ms=5)]


def test_with_the_place_it_is_told_how_many_wait_and_when_one_was_taken(alert: Alert) -> None:
    alert.topic.write("a", "b")
    alert.receiver.answers = lambda id_: refused(500) if id_ == "msg_a_0" else None
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: alert.receiver.taken == ["msg_b_1"], "the other one")
        alert.until(lambda: kept(alert.topic.notes.get(0, "")).at_ms > 0, "the note")
        told = kept(alert.topic.notes[0])
        assert (alert.topic.committed, told.waiting) == ({0: 0}, 1)
        assert told.at_ms == alert.counts.sent_ms
        alert.receiver.answers = lambda _: None
        alert.until_all(2)
    assert kept(alert.topic.notes[0]).waiting == 0


def test_after_a_crash_what_was_delivered_behind_a_refused_one_is_not_sent_again(
    alert: Alert,
) -> None:
    alert.topic.write(*"abacab")
    records = list(alert.topic.waiting)
    alert.receiver.answers = lambda id_: refused(500) if id_ == "msg_a_0" else None
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: len(alert.receiver.taken) == 3, "b and c")
        alert.until(lambda: kept(alert.topic.notes.get(0, "")).reached == 6, "the note")
        left = dict(alert.topic.committed), dict(alert.topic.notes)
        alert.receiver.answers = lambda _: None
    next_server = Alert()
    next_server.topic.committed, next_server.topic.notes = left
    next_server.topic.waiting.extend(records[left[0][0] :])
    next_server.topic.end = len(records)
    next_server.topic.write("b")
    with next_server.delivering.reading(next_server.topic):
        next_server.until_all(4)
    assert sorted(next_server.receiver.taken) == ["msg_a_0", "msg_a_2", "msg_a_4", "msg_b_6"]
    assert order(next_server.receiver.taken, "a") == [0, 2, 4]
    assert next_server.topic.committed == {0: 7}
