"""The picture: what is not known is never good, the worst comes first, and each fault says what to
do."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import orjson
import pytest

from cdc.alarms.catalog import ALARMS, BY_CODE
from cdc.alarms.judge import Held
from cdc.errors import LogError
from cdc.lag.states import GOOD, State
from cdc.lag.wal_forecast import WalForecast
from headwater.lag.alert_lags import AlertReport
from headwater.lag.verified import Verified
from headwater.pipeline import advice
from headwater.pipeline.build import WORST, no_data, picture, worst
from headwater.pipeline.picture import Arrow, Part, Pipeline
from tests.unit.headwater.pipeline.looks import SLOT, config, look, partition

LATE = partition(0, 5, 9, behind_s=45.0, in_kafka_s=44.0, moved_s=99.0)
OTHER = replace(partition(), view="w")


def made(*views: Any, **more: Any) -> Pipeline:
    return picture(config(), look(*views, **more), 101.0, {}, 7.5)


def arrow(found: Pipeline, begin: Part, view: str = "") -> Arrow:
    (one,) = (one for one in found.arrows if (one.begin, one.view) == (begin, view))
    return one


def test_the_order_has_each_state_and_unknown_ones_above_all_that_is_known_to_go_on() -> None:
    assert sorted(WORST) == sorted(State)
    assert worst([State.IDLE, State.CATCHING_UP, State.NO_DATA]) == State.NO_DATA
    assert worst([]) == State.NO_DATA
    assert worst([State.FRESH, State.IDLE]) in GOOD


def test_a_picture_has_an_arrow_for_each_part_and_the_worst_view_first() -> None:
    found = made(partition(), replace(LATE, view="w"))
    assert [one.view for one in found.views] == ["w", "v"]
    assert found.state == found.views[0].state
    assert found.state not in GOOD
    assert [(one.begin, one.end, one.view) for one in found.arrows] == [
        (Part.SOURCE, Part.CAPTURE, ""),
        (Part.CAPTURE, Part.TOPICS, ""),
        (Part.TOPICS, Part.VIEW, "v"),
        (Part.VIEW, Part.STORE, "v"),
        (Part.TOPICS, Part.VIEW, "w"),
        (Part.VIEW, Part.STORE, "w"),
    ]
    late = arrow(found, Part.TOPICS, "w")
    assert (late.lag_s, late.lag_records) == (44.0, 4)
    assert arrow(found, Part.VIEW, "w").lag_s == 45.0, "of the whole way"
    assert arrow(found, Part.SOURCE).records_s == 7.5
    assert found.slot == "s"


def test_what_is_sent_and_not_confirmed_is_captures_and_the_rest_is_on_the_way_to_it() -> None:
    slot = SLOT._replace(wal_end=1_000, sent=900, confirmed=700)
    found = made(partition(), OTHER, slot=slot)
    assert arrow(found, Part.SOURCE).lag_bytes == 100
    assert arrow(found, Part.CAPTURE).lag_bytes == 200


def test_of_what_is_not_known_there_is_no_figure() -> None:
    told = look(partition(), seen={"unmeasured": {"w": LogError("topic is gone", "make it")}})
    found = picture(config(), told, 101.0, {})
    (line,) = (one for one in found.views if one.view == "w")
    assert line.state == State.NO_DATA
    figures = [getattr(line, one.name) for one in fields(line) if one.name[-2:] in ("_s", "ds")]
    assert set(figures) == {None}
    assert [(one.sentence, one.hint) for one in line.advice] == [("topic is gone", "Make it.")]
    assert arrow(found, Part.TOPICS, "w").lag_s is None
    assert found.state == State.NO_DATA
    never = made(partition(at=None, end=0), OTHER)
    assert never.views[0].state == State.NO_DATA
    assert never.views[0].lag_s is None


def test_while_nothing_is_known_nothing_is_good_and_the_reason_comes_first() -> None:
    found = no_data(config(), "Kafka does not answer", 90.0, {})
    assert found.state == State.NO_DATA
    assert {one.state for one in found.arrows} == {State.NO_DATA}
    assert {one.state for one in found.views} == {State.NO_DATA}
    assert found.advice[0].sentence == "Kafka does not answer"
    assert found.measured_at_s == 90.0
    assert {one.lag_s for one in found.arrows} == {None}


@pytest.mark.parametrize(
    ("faults", "of", "code"),
    [
        ({"v": {"kind": "stopped", "fault": "disk full", "hint": "free some"}}, {}, "HW011"),
        ({"v": {"kind": "not applied", "fault": "nobody", "hint": "apply"}}, {}, "HW013"),
        ({}, {"lost_records": 3}, "HW009"),
        ({}, {"at": 5, "end": 9, "behind_s": 90.0, "in_kafka_s": 90.0, "moved_s": 1.0}, "HW008"),
        ({}, {"at": 5, "end": 9, "behind_s": 9_000.0, "moved_s": 99.5}, "HW007"),
    ],
)
def test_a_view_that_does_not_follow_says_what_to_do(
    faults: dict[str, dict[str, str]], of: dict[str, Any], code: str
) -> None:
    found = made(partition(**of), OTHER, faults=faults)
    first = found.views[0].advice[0]
    assert first.code == code
    assert first.explain == f"headwater explain {code}"
    assert first.link == f"/alarms/{code}"
    assert first.hint == (faults["v"]["hint"] if faults else BY_CODE[code].guide.recover[0])
    assert first in found.advice


@pytest.mark.parametrize(
    ("slot", "code"),
    [
        (SLOT._replace(exists=False, pid=None, confirmed=None, restart=None), "HW005"),
        (SLOT._replace(wal_status="lost"), "HW005"),
        (SLOT._replace(pid=None), "HW002"),
    ],
)
def test_a_slot_that_is_not_read_says_what_to_do(slot: Any, code: str) -> None:
    found = made(partition(), OTHER, slot=slot)
    assert found.advice[0].code == code
    assert found.arrows[0].state == State.BLOCKED
    assert found.arrows[0].blocked_by


@pytest.mark.parametrize(
    ("slot", "codes"),
    [
        (SLOT, ["HW004"]),
        (SLOT._replace(pid=None), ["HW002", "HW004"]),
        (SLOT._replace(wal_status="lost"), ["HW005"]),
    ],
)
def test_the_end_of_a_slot_is_foretold_while_nobody_reads_it_too(
    slot: Any, codes: list[str]
) -> None:
    report = look(partition(), slot=slot).report.capture
    near = replace(report, forecast=WalForecast(slot_loss_s=360.0))
    found = list(advice.of_capture("s", near))
    assert [one.code for one in found] == codes
    if "HW004" in codes:
        assert found[-1].sentence == "s: in 6 minutes the slot is lost"


def test_dead_letters_and_differences_are_told_beside_a_good_state() -> None:
    checked = {"verified": {"v": Verified(99.0, 5, 10, 98.0, 4, (("1",), ("2",)))}}
    found = made(partition(), OTHER, parked={"v": 2}, seen=checked)
    (line,) = (one for one in found.views if one.view == "v")
    assert [one.code for one in line.advice] == ["HW010", "HW015"]
    assert (line.parked_keys, line.differences, line.verified_at_s) == (2, 2, 98.0)
    assert line.verified_lsn == "0/4"
    assert line.state in GOOD
    assert [one.code for one in found.advice] == ["HW015", "HW010"], "critical ones first"


def test_an_alarm_that_fires_is_advice_once() -> None:
    held = {
        Held(BY_CODE["HW007"], (("source", "shop"), ("view", "v"))): 50.0,
        Held(BY_CODE["HW016"], (("source", "shop"),)): 40.0,
        Held(BY_CODE["HW009"], (("source", "shop"), ("view", "w"))): 60.0,
    }
    late = partition(0, 5, 9, behind_s=9_000.0, moved_s=99.5)
    found = picture(config(), look(late, OTHER), 101.0, held)
    assert [one.code for one in found.alarms] == ["HW009", "HW016", "HW007"]
    assert [one.code for one in found.advice] == ["HW009", "HW007", "HW016"]
    assert "view w" in found.alarms[0].summary
    assert found.alarms[0].since_s == 60.0


def test_each_alarm_can_be_shown() -> None:
    for alarm in ALARMS:
        labels = (("source", "shop"), ("view", "v"), ("snapshot", "3"), ("alert", "a"))
        (one,) = advice.firing({Held(alarm, labels): 1.0})
        assert "{" not in one.summary
        assert one.recover
        assert advice.advice(alarm.code, "s").hint == alarm.guide.recover[0]


def test_as_json_it_has_the_names_of_its_fields() -> None:
    found = orjson.loads(orjson.dumps(made(partition(), OTHER)))
    assert found.keys() == {one.name for one in fields(Pipeline)}
    assert found["arrows"][0]["begin"] == "source"
    assert found["views"][0]["state"] == "idle"


def test_an_alert_that_is_blocked_says_what_to_do_and_is_the_state_of_the_whole() -> None:
    blocked = AlertReport("big", "public.orders", State.BLOCKED, "no `headwater serve` sends it")
    letters = AlertReport("risen", "v", State.IDLE, lag_s=0.0, dead_letters=2)
    seen = look(partition())._replace(alerts=(letters, blocked))
    found = picture(config(), seen, 101.0, {})
    assert [one.alert for one in found.row_alerts] == ["big", "risen"]
    assert found.state == State.BLOCKED
    told = {one.sentence: one for one in found.advice}
    assert told["alert big: no `headwater serve` sends it"].code == "HW017"
    letters_told = told["alert risen: 2 messages wait as dead letters"]
    assert letters_told.code == "HW018"
    assert "dead-letters list alerts.risen" in letters_told.hint


@pytest.mark.parametrize(("undelivered_s", "is_told"), [(299.0, False), (301.0, True)])
def test_an_alert_whose_messages_wait_is_told_of_once(undelivered_s: float, is_told: bool) -> None:
    late = AlertReport("big", "v", State.STALLED, lag_s=400.0, undelivered_s=undelivered_s)
    seen = look(partition())._replace(alerts=(late,))
    firing = {Held(BY_CODE["HW018"], (("source", "shop"), ("alert", "big"))): 40.0}
    found = picture(config(), seen, 101.0, firing if is_told else {})
    assert [one.code for one in found.advice] == ["HW018"] * is_told
    assert [one.alert for one in found.alarms] == ["big"] * is_told
