"""The past: bounded, gaps stay gaps, and a coarse step hides no fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.lag.states import State
from headwater.pipeline.build import no_data, picture
from headwater.pipeline.history import CAPTURE, COARSE_S, FINE_S, LAGS_S, SPANS, Past, Step
from headwater.pipeline.picture import Pipeline
from tests.unit.headwater.pipeline.looks import config, look, partition

BEGIN_S = 1_000_000 * COARSE_S


def seen(lag_s: float = 0.0, records_s: float = 5.0) -> Pipeline:
    end = 9 if lag_s else 5
    one = partition(0, 5, end, behind_s=lag_s, in_kafka_s=lag_s, moved_s=99.0)
    return picture(config(), look(one, replace(one, view="w")), 100.0, {}, records_s)


def unknown() -> Pipeline:
    return no_data(config(), "Kafka does not answer", None, {})


def values(past: Past, name: str, figure: str, length_s: int, now_s: float) -> list[object]:
    found = past.history(length_s, [name], now_s)
    return list(next(one for one in found.series if one.name == figure).values)


def test_a_step_has_the_worst_state_the_greatest_lag_and_the_mean_of_rates() -> None:
    past = Past(["v", "w"])
    for second, one in enumerate([seen(records_s=1.0), seen(12.0, 3.0), seen(records_s=5.0)]):
        assert past.add(BEGIN_S + second, one) == []
    (step,) = past.add(BEGIN_S + FINE_S, seen())
    assert (step.length_s, step.number) == (FINE_S, BEGIN_S // FINE_S)
    now_s = BEGIN_S + FINE_S + 1
    assert values(past, "v", "lag_s", FINE_S, now_s) == [12.0]
    assert values(past, "v", "lag_records", FINE_S, now_s) == [4.0]
    assert values(past, CAPTURE, "records_s", FINE_S, now_s) == [3.0]
    (state,) = values(past, "v", "state", FINE_S, now_s)
    assert state == seen(12.0).views[0].state.value


def test_what_was_not_measured_has_no_value_and_time_without_a_server_is_left_out() -> None:
    past = Past(["v"])
    past.add(BEGIN_S, unknown())
    past.add(BEGIN_S + FINE_S, seen())
    past.add(BEGIN_S + 100 * FINE_S, seen())
    now_s = BEGIN_S + 100 * FINE_S
    found = past.history(FINE_S, ["v"], now_s)
    assert found.at_s == (BEGIN_S, BEGIN_S + FINE_S)
    assert values(past, "v", "lag_s", FINE_S, now_s) == [None, 0.0]
    assert values(past, "v", "state", FINE_S, now_s) == [State.NO_DATA.value, State.IDLE.value]


def test_one_figure_is_read_alone_and_is_the_same() -> None:
    past = Past(["v"])
    for second in range(20):
        past.add(BEGIN_S + second, seen(float(second)))
    now_s = BEGIN_S + 20
    every = past.history(FINE_S, [CAPTURE, "v"], now_s)
    for figure in ("state", "lag_s", "records_s", "lag_records"):
        (*_, alone) = past.history(FINE_S, [CAPTURE, "v"], now_s, figure).series
        assert alone == next(o for o in every.series if (o.name, o.view) == (figure, "v"))


def test_no_more_is_remembered_than_an_hour_and_a_day() -> None:
    past = Past(["v"])
    one = seen()
    for number in range(2 * SPANS[COARSE_S]):
        past.add(BEGIN_S + number * COARSE_S, one)
    now_s = BEGIN_S + 2 * SPANS[COARSE_S] * COARSE_S
    assert len(past.history(COARSE_S, [], now_s).at_s) == SPANS[COARSE_S] - 2
    assert past.history(FINE_S, [], now_s + 3_600).at_s == ()
    assert past.history(COARSE_S, [], now_s + 86_400).at_s == ()


def test_freshness_is_of_time_and_not_of_steps() -> None:
    """A minute of an hour was 45 s late: it is in a sixtieth of the time, not in every step."""
    past = Past(["v"])
    good, late = seen(), seen(45.0)
    for second in range(3_601):
        past.add(BEGIN_S + second, late if 600 <= second < 660 else good)
    found = past.freshness("v", BEGIN_S + 3_601)
    at = dict(zip(found.lags_s, found.shares, strict=True))
    assert at[30.0] == pytest.approx(1 / 60, rel=0.05)
    assert at[60.0] == 0.0
    assert found.measured == pytest.approx(1 / 24, rel=0.01)
    assert list(found.shares) == sorted(found.shares, reverse=True)
    assert Past(["v"]).freshness("v", BEGIN_S).shares == ()


def test_a_step_is_the_same_out_of_its_document() -> None:
    past = Past(["v", "w"])
    past.add(BEGIN_S, seen(12.0))
    steps = past.add(BEGIN_S + COARSE_S, unknown())
    assert {one.length_s for one in steps} == {FINE_S, COARSE_S}
    for step in steps:
        assert Step.parsed(step.length_s, step.number, step.document()) == step
    for wrong in ({}, {"figures": {"v": ["odd", 1, 1, 1]}, "late_s": {}},
                  {"figures": {}, "late_s": {"v": [1.0]}},
                  {"figures": {"v": ["idle", "x", 1, 1]}, "late_s": {}}):  # fmt: skip
        with pytest.raises((ValueError, KeyError, TypeError)):
            Step.parsed(FINE_S, 1, wrong)
    assert list(LAGS_S) == sorted(LAGS_S)


def test_a_clock_that_goes_back_does_no_harm() -> None:
    past = Past(["v"])
    past.add(BEGIN_S + 50, seen())
    past.add(BEGIN_S + 60, seen())
    past.add(BEGIN_S, seen())
    past.add(BEGIN_S + 70, seen())
    assert len(past.history(FINE_S, [], BEGIN_S + 70).at_s) == 3
    assert past.freshness("v", BEGIN_S + 70).measured >= 0
