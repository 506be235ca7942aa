"""Refused attempts cost a bounded number of lines, and none is forgotten."""

from __future__ import annotations

from headwater.api.actions.refusals import LINES, Refusals


def test_so_many_are_written_a_minute_and_the_others_are_counted() -> None:
    now_s = 100.0
    refusals = Refusals(lambda: now_s)
    first = [refusals.line_of("bob", "no operator") for _ in range(1_000)]
    assert first[:LINES] == ["no operator"] * LINES
    assert first[LINES] == "no operator; further ones of this minute are counted"
    assert set(first[LINES + 1 :]) == {None}
    assert refusals.line_of("eve", "no operator") == "no operator", "each has lines of its own"
    now_s += 60
    left = 1_000 - LINES - 1
    assert refusals.line_of("bob", "x") == f"x; {left} before it were not written down"
    assert refusals.line_of("bob", "x") == "x"
    now_s += 600
    assert refusals.line_of("bob", "x") == "x"
