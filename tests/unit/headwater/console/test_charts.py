"""What charts say in words: a point stands for a time, and is never what is so now."""

from __future__ import annotations

from headwater.console import words
from headwater.console.charts import line_chart, state_strip

_NOON = 1_795_780_800.0  # 2026-11-27, 12:00 UTC


def test_the_newest_lag_is_the_greatest_of_its_time() -> None:
    at_s = [_NOON, _NOON + 600]
    lag = words.seconds(13)
    assert line_chart("Lag", at_s, [2.0, 13.0], words.seconds, True).said == (
        f"12:10 to 12:20 UTC: at most {lag}. Greatest {lag}, at 12:10 UTC."
    )


def test_a_rate_is_a_mean_and_short_steps_have_seconds() -> None:
    at_s = [_NOON, _NOON + 25, _NOON + 50]
    assert line_chart("Records", at_s, [9.0, 4.0, None], words.rate).said == (
        f"12:00:25 to 12:00:50 UTC: on average {words.rate(4)}. "
        f"Greatest {words.rate(9)}, at 12:00 UTC."
    )


def test_the_newest_state_is_the_worst_of_its_time() -> None:
    found = state_strip("State", [_NOON, _NOON + 600], ["idle", "falling back"])
    assert (
        found.said == "12:10 to 12:20 UTC: at worst falling back. The worst of all: falling back."
    )


def test_nothing_measured_is_said() -> None:
    assert line_chart("Lag", [_NOON], [None], words.seconds, True).said == "Nothing was measured."
    assert state_strip("State", [_NOON], [None]).said == "Nothing was measured."
