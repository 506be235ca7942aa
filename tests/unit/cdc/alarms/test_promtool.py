"""The rules as Prometheus reads them: promtool and amtool check, and try each alarm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from cdc.alarms.alarm import Alarm
from cdc.alarms.catalog import ALARMS, BY_CODE
from cdc.alarms.files import ROOT
from cdc.alarms.rules import expression
from cdc.metrics.exposition import registry_of
from tests.support.servers.prometheus import run
from tests.unit.cdc.alarms.cases import CASES, MINUTES, STEP_S, Case, Line
from tests.unit.cdc.metrics.test_catalog import whole

DEPLOY = ROOT / "deploy/prometheus"
RULES = DEPLOY / "headwater.rules.yml"


def test_rules_and_examples_of_configuration_are_valid() -> None:
    for name, what, path in (
        ("promtool", ("check", "rules"), RULES),
        ("promtool", ("check", "config"), DEPLOY / "prometheus.yml"),
        ("amtool", ("check-config",), DEPLOY / "alertmanager.yml"),
    ):
        code, said = run(name, *what, path)
        assert code == 0, said


def test_a_new_alarm_does_not_wait_for_another_one_of_its_source() -> None:
    """A group that was told waits for ``group_interval`` before it tells of another alert."""
    route = yaml.safe_load((DEPLOY / "alertmanager.yml").read_text(encoding="utf-8"))["route"]
    assert route["group_by"] == ["source", "code"]
    assert (route["group_wait"], route["group_interval"]) == ("15s", "1m")


def test_what_is_exported_has_the_form_that_prometheus_asks_for() -> None:
    code, said = run(
        "promtool", "check", "metrics", text=generate_latest(registry_of(whole)).decode()
    )
    assert (code, said) == (0, "")


def test_each_alarm_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{STEP_S}s",
        "tests": [tried(case) for case in CASES],
    }
    path = tmp_path / "alarms.test.yml"
    path.write_text(json.dumps(document), encoding="utf-8")
    code, said = run("promtool", "test", "rules", path)
    assert code == 0, said


def tried(case: Case) -> dict[str, Any]:
    """A test of promtool."""
    alarm = BY_CODE[case.code]
    fires = [told(alarm, case)] if case.fires else []
    moments = [(f"{MINUTES}m", fires)]
    if alarm.for_minutes and case.fires:
        moments.insert(0, (f"{alarm.for_minutes * 60 - STEP_S:.0f}s", []))
    return {
        "name": f"{case.code}: {case.why}",
        "interval": f"{STEP_S}s",
        "input_series": [one for line in case.lines for one in series(line)],
        "alert_rule_test": [
            {"eval_time": at, "alertname": f"Headwater{alarm.name}", "exp_alerts": expected}
            for at, expected in moments
        ],
    }


def told(alarm: Alarm, case: Case) -> dict[str, Any]:
    """The alert as it has to be."""
    return {
        "exp_labels": {"code": alarm.code, "severity": alarm.severity, **case.fired},
        "exp_annotations": {
            "summary": alarm.summary.format(**case.fired),
            "description": alarm.guide.means,
            "runbook": f"headwater explain {alarm.code}",
        },
    }


def series(line: Line) -> Iterator[dict[str, str]]:
    """A line as promtool writes it: of a state set one for each state."""
    values = f"{line.start:g}{line.step:+g}x{min(MINUTES * 60, line.until_s) // STEP_S}"
    if line.until_s < MINUTES * 60:
        values += " stale"
    given = dict(zip(line.metric.labels, line.labels, strict=True))
    for state in line.metric.states or [""]:
        labels = given | ({line.metric.name: state} if state else {})
        labels |= {"job": line.process} if line.process else {}
        listed = ", ".join(f'{name}="{value}"' for name, value in labels.items())
        told = (
            values if state == line.word or not line.metric.states else values.replace("1", "0", 1)
        )
        yield {"series": f"{line.metric.exported}{{{listed}}}", "values": told}


def test_a_look_that_the_source_does_not_answer_does_not_begin_the_wait_again(
    tmp_path: Path,
) -> None:
    """Then nobody exports what the source would have said."""
    cases = [one for one in CASES if one.fires and one.code in ("HW002", "HW004", "HW006", "HW016")]
    path = tmp_path / "gap.test.yml"
    tests = [unanswered(case) for case in cases]
    every = {"rule_files": [str(RULES)], "evaluation_interval": f"{STEP_S}s"}
    path.write_text(json.dumps(every | {"tests": tests}), encoding="utf-8")
    code, said = run("promtool", "test", "rules", path)
    assert (len(tests), code) == (7, 0), said


def unanswered(case: Case) -> dict[str, Any]:
    """A test of promtool: in the middle of the wait is one look without figures."""
    document = tried(case)
    steps = int(BY_CODE[case.code].for_minutes * 60 / STEP_S) - 2
    for one in document["input_series"]:
        value = one["values"].partition("+")[0]
        one["values"] = f"{value}+0x{steps} stale {value}+0x20"
    fired = document["alert_rule_test"][-1] | {"eval_time": f"{(steps + 4) * STEP_S}s"}
    return document | {"alert_rule_test": [fired]}


def test_a_process_that_is_gone_still_alarms(tmp_path: Path) -> None:
    """Prometheus forgets what is not scraped any more at once, but for what looks back."""
    gone = {
        "headwater_capture_mark_timestamp_seconds": "HW001",
        "headwater_view_heartbeat_timestamp_seconds": "HW013",
    }
    every = "headwater_source_heartbeat_interval_seconds"
    labels = {"HW001": 'source="shop"', "HW013": 'source="shop", view="orders"'}
    tests = [
        {
            "interval": "15s",
            "input_series": [
                {"series": f"{name}{{{labels[code]}}}", "values": "0+15x8 stale"},
                {"series": f'{every}{{source="shop"}}', "values": "10x8 stale"},
            ],
            "promql_expr_test": [
                {"expr": f"count({expression(BY_CODE[code])})", "eval_time": at,
                 "exp_samples": [{"labels": "{}", "value": 1}] if at == "12h" else []}
                for at in ("1m", "12h")
            ],
        }
        for name, code in gone.items()
    ]  # fmt: skip
    path = tmp_path / "gone.test.yml"
    path.write_text(json.dumps({"rule_files": [], "tests": tests}), encoding="utf-8")
    code, said = run("promtool", "test", "rules", path)
    assert code == 0, said


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.code)
def test_each_alarm_has_figures_that_fire_it_and_figures_that_do_not(alarm: Alarm) -> None:
    assert {case.fires for case in CASES if case.code == alarm.code} == {True, False}
    tried = {line.metric.name for case in CASES if case.code == alarm.code and case.fires
             for line in case.lines}  # fmt: skip
    assert set(re.findall(r"headwater_[a-z_]+(?=[{\[)])", expression(alarm))) <= {
        *tried, *(f"{name}_total" for name in tried)
    }  # fmt: skip
