"""Deleted keys are forgotten by what the stream has read, not by time that passed alone."""

from __future__ import annotations

from cdc.kafka.broker import Offsets
from jobs.run.stream.tombstone_expiry import TombstoneExpiry


class Time:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_moment_counts_when_the_stream_has_read_what_kafka_held_then() -> None:
    clock, ends = Time(), {"t": {0: 10, 1: 5}}
    expiry = TombstoneExpiry(clock)

    def asked(held: Offsets) -> float | None:
        return expiry.noted_ago_s(held, lambda: ends)

    assert asked({"t": {0: 2, 1: 5}}) is None, "a process that starts after an outage"
    clock.now_s = 600.0
    assert asked({"t": {0: 9, 1: 5}}) is None
    clock.now_s, ends = 1_200.0, {"t": {0: 12, 1: 5}}
    assert asked({"t": {0: 10, 1: 5}}) == 1_200.0
    clock.now_s = 1_800.0
    assert asked({"t": {0: 11, 1: 5}}) is None
    assert asked({"t": {0: 12, 1: 5}}) == 600.0


def test_a_topic_that_the_stream_reads_no_more_holds_up_nothing() -> None:
    clock = Time()
    expiry = TombstoneExpiry(clock)
    expiry.noted_ago_s({}, lambda: {"t": {0: 10}, "u": {0: 1}})
    clock.now_s = 5.0
    assert expiry.noted_ago_s({"t": {0: 10}}, dict) == 5.0
    assert expiry.noted_ago_s({}, dict) == 0.0
