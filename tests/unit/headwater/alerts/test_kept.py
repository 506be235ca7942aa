"""What is kept with a place: what is done beyond it, in one word."""

from __future__ import annotations

import random

import pytest

from headwater.alerts.kept import Kept, kept
from headwater.alerts.queue import Delivery, Queue


@pytest.mark.parametrize("left", [(), (0,), (5, 6, 90), (1 << 50, (1 << 50) + 1)])
def test_a_word_says_what_was_written(left: tuple[int, ...]) -> None:
    told = Kept(1_700_000_000_000, 3, (1 << 50) + 9, left)
    assert " " not in told.note
    assert kept(told.note) == told._replace(left=frozenset(left))


def test_more_than_a_word_holds_is_taken_for_not_done() -> None:
    left = random.Random(3).sample(range(10**9), 1_000)
    told = Kept(1, 1_000, 10**9, sorted(left))
    assert len(told.note) < 2_100
    read = kept(told.note)
    assert read is not None
    assert not any(read.is_done(offset) for offset in left)
    assert 0 < read.reached < 10**9
    assert read.is_done(min(left) - 1)


@pytest.mark.parametrize("word", ["", "x", "1:2", "1:2:3:!", "a:b:c:d", "1:2:3:4:5"])
def test_a_word_of_another_kind_says_nothing(word: str) -> None:
    assert kept(word) is None


def delivery(offset: int, key: bytes) -> Delivery:
    return Delivery(0, offset, key, f"msg_{offset}", b"x")


def test_while_a_partition_is_read_again_what_is_known_of_the_rest_is_kept() -> None:
    """Else a second crash would have all of that sent again."""
    queue = Queue()
    queue.resume(0, Kept(0, 2, 10, frozenset((3, 8))))
    assert [offset for offset in range(3, 12) if not queue.is_done(0, offset)] == [3, 8, 10, 11]
    queue.passed(0, 3)
    queue.add(delivery(3, b"a"))
    queue.passed(0, 4)
    assert queue.commits() == {0: 3}
    assert queue.kept(0, 7) == Kept(7, 1, 10, [3, 8])
    queue.passed(0, 10)
    assert queue.kept(0, 7) == Kept(7, 1, 11, [3])
    queue.drop([0])
    assert not queue.knows(0)


def test_when_a_message_was_taken_last_is_kept_over_a_restart_and_for_the_next_log() -> None:
    queue = Queue()
    queue.resume(0, Kept(1_700, 0, 100))
    queue.passed(0, 100)
    assert queue.kept(0, 0).at_ms == 1_700, "nothing was sent since the restart"
    queue.drop([0])
    queue.resume(1, Kept())
    queue.passed(1, 0)
    assert queue.kept(1, 0).at_ms == 1_700, "another generation, or another partition"
    assert queue.kept(1, 1_900).at_ms == 1_900
