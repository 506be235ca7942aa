"""What is sent, when, and what is committed."""

from __future__ import annotations

from functools import partial
from urllib.error import URLError

import pytest

from tests.unit.headwater.alerts.alert_in_memory import Alert, order, refused


@pytest.fixture
def alert() -> Alert:
    return Alert()


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


def test_with_the_place_it_is_told_how_many_wait_and_when_one_was_taken(alert: Alert) -> None:
    alert.topic.write("a", "b")
    alert.receiver.answers = lambda id_: refused(500) if id_ == "msg_a_0" else None
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: alert.receiver.taken == ["msg_b_1"], "the other one")
        alert.until(lambda: alert.told.at_ms > 0, "the note")
        told = alert.told
        assert (alert.topic.committed, told.waiting) == ({0: 0}, 1)
        assert told.at_ms == alert.counts.sent_ms
        alert.receiver.answers = lambda _: None
        alert.until_all(2)
    assert alert.told.waiting == 0


def test_after_a_crash_what_was_delivered_behind_a_refused_one_is_not_sent_again(
    alert: Alert,
) -> None:
    alert.topic.write(*"abacab")
    records = list(alert.topic.waiting)
    alert.receiver.answers = lambda id_: refused(500) if id_ == "msg_a_0" else None
    with alert.delivering.reading(alert.topic):
        alert.until(lambda: len(alert.receiver.taken) == 3, "b and c")
        alert.until(lambda: alert.told.reached == 6, "the note")
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
