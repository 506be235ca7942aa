"""What a soak does and how it judges growth: on made-up samples. No server."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from xml.etree import ElementTree

import pytest

from benchmarks.many.shop import FULL
from tests.soak.faults import BOTH_KILLED, FAULTS, RESTARTS, SURVIVED, plan
from tests.soak.growth import BOUNDS, Sample, growth, judged
from tests.soak.load import LIVE, steady
from tests.soak.picture import Fault, svg

MINUTES = 30
_EACH = 6
"""Samples of a minute."""


def _samples(changed: str = "", value: Callable[[float], float] = lambda _: 0) -> list[Sample]:
    """Everything is level, but for one that is as told in each minute."""
    level = dict.fromkeys(BOUNDS, 100.0)
    moments = [number / _EACH for number in range(MINUTES * _EACH)]
    return [Sample(m, level | ({changed: value(m)} if changed else {})) for m in moments]


def test_what_stays_level_is_no_growth() -> None:
    assert list(growth(_samples(), MINUTES)) == []


@pytest.mark.parametrize("name", [name for name, bound in BOUNDS.items() if bound.most is None])
def test_a_leak_is_found_and_named(name: str) -> None:
    (found,) = growth(_samples(name, lambda minute: 100 + 10 * minute), MINUTES)
    assert found.startswith(f"{BOUNDS[name].what} grew from 2")
    assert "minute 15 and 29" in found


@pytest.mark.parametrize("name", [name for name, bound in BOUNDS.items() if bound.most is not None])
def test_what_is_above_its_limit_once_is_found(name: str) -> None:
    most = BOUNDS[name].most
    assert most is not None
    (found,) = growth(_samples(name, lambda m: most + 1 if 20 < m < 20.3 else 0), MINUTES)
    assert found.startswith(BOUNDS[name].what)


@pytest.mark.parametrize("share", [0.029, 0.031])
def test_memory_may_grow_by_three_percent(share: float) -> None:
    step = _samples("apply_mb", lambda minute: 1000 if minute < 22 else 1000 * (1 + share))
    assert bool(list(growth(step, MINUTES))) == (share > 0.03)


def test_growth_of_the_first_minutes_and_of_the_last_one_does_not_count() -> None:
    rising = _samples("apply_mb", lambda m: 100 * min(m, 15) if m < 29 else 9000)
    assert list(growth(rising, MINUTES)) == []


def test_a_saw_tooth_and_a_peak_are_no_growth() -> None:
    wave = _samples("apply_mb", lambda m: 1000 + 200 * (m % 0.5) + 500 * (26 < m < 27))
    assert list(growth(wave, MINUTES)) == []


def test_what_was_not_measured_is_no_good_news() -> None:
    lacking = [
        Sample(one.minute, {k: v for k, v in one.values.items() if k != "lag_s"})
        for one in _samples()
    ]
    (found,) = growth(lacking, MINUTES)
    assert "not measured" in found
    assert len(list(growth([], MINUTES))) == len(BOUNDS)


def test_a_short_run_judges_no_growth() -> None:
    assert judged(20) is None
    assert judged(21) == (15, 20)
    assert list(growth(_samples("apply_mb", lambda minute: 99**minute), 20)) == []


def test_each_minute_has_a_fault_and_kills_come_before_what_is_judged() -> None:
    for minutes in (2, 4, 30, 120):
        faults = plan(minutes, 1)
        assert len(faults) == minutes
        assert faults[-1] == BOTH_KILLED
        assert {*faults} <= {*FAULTS}
    half_an_hour = plan(MINUTES, 1)
    assert {*half_an_hour} == {*FAULTS}
    assert {*half_an_hour[15:-1]} <= {*SURVIVED}
    assert half_an_hour[: len(RESTARTS)] == [*RESTARTS]


def test_the_shop_does_not_grow() -> None:
    """What is inserted is deleted when so many others were committed."""
    live: set[object] = set()
    most = 0
    for transaction in islice(steady(FULL, 1), 4 * LIVE):
        for sql, values in transaction:
            if sql.startswith("insert into orders"):
                live.add(values[0])
            elif sql.startswith("delete from orders"):
                live.discard(values[0])
        most = max(most, len(live))
    assert 0.15 * LIVE < most < 0.3 * LIVE


def test_the_picture_has_curves_with_gaps_and_a_mark_for_each_fault() -> None:
    samples = [
        Sample(m, {"capture_mb": 90 + m, "apply_mb": 1200.0} | ({} if m == 3 else {"lag_s": 0.2}))
        for m in range(8)
    ]
    faults = [Fault(1.3, "apply killed"), Fault(2.3, "broker <cut>"), Fault(4.3, "apply killed")]
    tree = ElementTree.fromstring(svg(samples, faults, 8, "8 minutes & no more"))
    name = "{http://www.w3.org/2000/svg}"
    assert len(tree.findall(f"{name}circle")) == len(faults)
    curves = {
        str(path.get("class")): str(path.get("d")).split()
        for path in tree.findall(f"{name}path")
        if "L" in str(path.get("d"))
    }
    assert [len(curves[of]) for of in ("capture", "apply", "lag")] == [8, 8, 7]
    assert [step[0] for step in curves["lag"]] == ["M", "L", "L", "M", "L", "L", "L"]
    said = [str(text.text) for text in tree.findall(f"{name}text")]
    assert [word for word in said if word in ("0", "200", "1,000", "1,200", "1,400")] == [
        *("0", "200", "1,000", "1,200")
    ]
    assert said.count("broker <cut>") == 1
