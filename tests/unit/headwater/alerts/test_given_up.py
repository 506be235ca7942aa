"""What becomes a dead letter, when, and what waits for it."""

from __future__ import annotations

import time
from urllib.error import URLError

import pytest

from cdc.errors import RetryableError
from headwater.alerts import delivery as module
from headwater.alerts.letters import Letter, letter_record, opened
from tests.unit.headwater.alerts.alert_in_memory import Alert, order, refused


@pytest.fixture
def alert() -> Alert:
    return Alert()


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
