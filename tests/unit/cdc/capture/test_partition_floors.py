"""From where on partitions are searched for what a mark does not cover."""

from __future__ import annotations

from cdc.capture.partition_floors import Floors, unbounded
from cdc.events.marks import Mark, decode_mark


def mark(lsn: int, offsets: dict[str, dict[int, int]], floors: Floors) -> Mark:
    return Mark(lsn + 1, offsets, "7", 1, "db", "slot", None, floors.at(lsn, offsets))


def test_a_floor_rises_when_a_mark_covers_the_newest_change() -> None:
    floors = Floors({"t": {0: 5}}, newest=100)
    assert mark(99, {"t": {0: 9}}, floors).searched_from == {"t": {0: 5}}
    floors.handed_over(300)
    assert mark(99, {"t": {0: 20}}, floors).searched_from == {"t": {0: 5}}
    assert mark(100, {"t": {0: 21}}, floors).searched_from == {"t": {0: 9}}
    assert mark(300, {"t": {0: 30}}, floors).searched_from == {"t": {0: 30}}


def test_of_a_topic_that_comes_up_all_is_below_its_floor() -> None:
    floors = Floors({"t": {0: 5}}, newest=100)
    floors.at(50, {"t": {0: 9}})
    floors.opened("new", {0: 3})
    floors.handed_over(200)
    now = {"t": {0: 9}, "new": {0: 8}}
    assert mark(50, now, floors).searched_from == {"t": {0: 5}, "new": {0: 3}}
    assert mark(100, now, floors).searched_from == {"t": {0: 9}, "new": {0: 3}}


def test_a_mark_says_only_floors_that_its_offsets_do_not() -> None:
    floors = Floors({"t": {0: 5, 1: 7}, "u": {0: 2}}, newest=100)
    wanted = mark(50, {"t": {0: 9, 1: 7}, "u": {0: 2}}, floors)
    assert b'"floors":{"t":{"0":5}}' in wanted.encode(0)
    found = decode_mark(wanted.encode(0), "topic")
    assert found.searched_from == wanted.searched_from


def test_of_a_mark_without_floors_all_is_searched() -> None:
    value = Mark(100, {"t": {0: 5}}, "7", 1, "db", "slot").encode(0)
    assert decode_mark(value, "topic").searched_from == {"t": {0: 5}}
    earlier = value.replace(b'"floors":{},', b"")
    assert decode_mark(earlier, "topic").searched_from == {"t": {0: 0}}


def test_what_is_read_whole_after_a_mark_without_floors_is_counted() -> None:
    starts, ends = {"t": {0: 2, 1: 0}, "u": {0: 0}}, {"t": {0: 9, 1: 4}, "u": {0: 0}}
    value = Mark(100, {"t": {0: 8, 1: 4}, "u": {0: 0}}, "7", 1, "db", "slot").encode(0)
    earlier = decode_mark(value.replace(b'"floors":{},', b""), "topic").searched_from
    assert unbounded(earlier, starts, ends) == 11
    now = decode_mark(value, "topic").searched_from
    assert unbounded(now, starts, ends) == 0
    assert unbounded({}, {}, {}) == 0
