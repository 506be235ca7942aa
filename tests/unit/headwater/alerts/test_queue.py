"""Messages in order by key, and how far everything is done."""

from __future__ import annotations

import random

from headwater.alerts.queue import Delivery, Queue


def delivery(offset: int, key: bytes | None, partition: int = 0, size: int = 1) -> Delivery:
    return Delivery(partition, offset, key, f"msg_{offset}", b"x" * size)


def filled(*deliveries: Delivery) -> Queue:
    queue = Queue()
    for one in deliveries:
        queue.passed(one.partition, one.offset)
        queue.add(one)
    return queue


def test_a_key_has_one_under_way_and_others_go_on() -> None:
    a, b, c = delivery(0, b"1"), delivery(1, b"1"), delivery(2, b"2")
    queue = filled(a, b, c)
    assert [queue.take(0), queue.take(0), queue.take(0)] == [a, c, None]
    queue.done(c)
    assert queue.take(0) is None
    queue.done(a)
    assert queue.take(0) is b


def test_a_key_waits_with_what_is_sent_again() -> None:
    a, b, c = delivery(0, b"1"), delivery(1, b"1"), delivery(2, b"2")
    queue = filled(a, b, c)
    assert queue.take(0) is a
    queue.again(a, 5.0)
    assert [queue.take(1), queue.take(1), queue.take(5)] == [c, None, a]


def test_what_waits_for_the_same_time_is_sent_in_its_order() -> None:
    a, b = delivery(0, b"1"), delivery(1, b"2")
    queue = filled(a, b)
    assert queue.take(0) is a
    queue.again(a, 0.0)
    assert queue.take(0) is a


def test_one_that_is_to_be_sent_again_goes_before_those_that_came_later() -> None:
    """So that it is sent again, however fast others come."""
    queue = Queue()
    early, later = delivery(0, b"1"), delivery(1, b"2")
    early.added_s, later.added_s = 1.0, 9.0
    for one in (early, later):
        queue.passed(0, one.offset)
        queue.add(one)
    assert queue.take(9) is early
    queue.again(early, 5.0)
    assert [queue.take(9), queue.take(9)] == [early, later]


def test_offsets_are_committed_up_to_the_oldest_that_waits() -> None:
    a, b = delivery(3, b"1"), delivery(5, b"2")
    queue = filled(a, b)
    queue.passed(0, 8)
    queue.passed(1, 2)
    assert queue.commits() == {0: 3, 1: 3}
    queue.done(b) if queue.take(0) is b else queue.done(a)
    assert queue.commits() == {0: 5, 1: 3}
    assert queue.take(0) is b
    queue.done(b)
    assert queue.commits() == {0: 9, 1: 3}


def test_records_without_a_key_are_in_order_in_their_partition() -> None:
    a, b, c = delivery(0, None), delivery(1, None), delivery(0, None, partition=1)
    queue = filled(a, b, c)
    assert [queue.take(0), queue.take(0), queue.take(0)] == [a, c, None]


def test_a_partition_that_goes_leaves_nothing_behind() -> None:
    a, b, c = delivery(0, b"1", size=9), delivery(1, b"1"), delivery(0, b"1", partition=1)
    queue = filled(a, b, c)
    assert queue.take(0) is a
    queue.drop([0])
    queue.done(a)
    queue.again(a, 0)
    assert len(queue) == 1
    assert queue.commits() == {1: 0}
    assert [queue.take(0), queue.take(0)] == [c, None]
    queue.passed(0, 0)  # it comes back
    queue.add(again := delivery(0, b"1"))
    assert queue.take(0) is again


def test_what_waits_is_bounded_by_number_and_bytes() -> None:
    queue = Queue(most=2, most_bytes=100)
    queue.passed(0, 0)
    queue.add(one := delivery(0, b"1"))
    assert not queue.is_full
    queue.passed(0, 1)
    queue.add(delivery(1, b"2"))
    assert queue.is_full
    assert queue.take(0) is one
    queue.done(one)
    assert not queue.is_full
    queue.passed(0, 2)
    queue.add(delivery(2, b"1", size=100))
    assert queue.is_full


def test_any_order_of_answers_keeps_keys_in_order_and_commits_nothing_undone() -> None:
    for seed in range(50):
        chance = random.Random(seed)
        queue, todo = Queue(), [delivery(at, b"%d" % chance.randrange(3)) for at in range(30)]
        done, under_way, now_s = list[Delivery](), list[Delivery](), 0.0
        while todo or len(queue):
            now_s += 1.0
            if todo and chance.random() < 0.5:
                queue.passed(0, todo[0].offset)
                queue.add(todo.pop(0))
            while len(under_way) < 4 and (found := queue.take(now_s)) is not None:
                under_way.append(found)
            if under_way:
                one = under_way.pop(chance.randrange(len(under_way)))
                if chance.random() < 0.3:
                    queue.again(one, now_s + chance.randrange(5))
                else:
                    queue.done(one)
                    done.append(one)
            committed = queue.commits().get(0, 0)
            undone = set(range(committed)) - {one.offset for one in done}
            assert not undone
        assert queue.commits() == {0: 30}
        for key in (b"0", b"1", b"2"):
            of_key = [one.offset for one in done if one.key == key]
            assert of_key == sorted(of_key)
