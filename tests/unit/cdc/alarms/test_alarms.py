"""The catalog of alarms, what is written from it, and the judge of our own processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main
import yaml
from click import Group, UsageError

from cdc.alarms.alarm import Alarm
from cdc.alarms.catalog import ALARMS, BY_CODE
from cdc.alarms.conditions import metrics_of, remembered_by
from cdc.alarms.files import files
from cdc.alarms.readings import Readings
from cdc.alarms.rules import labels_of, prometheus_rules, shared_labels
from cdc.metrics.catalog import CATALOG
from cdc.metrics.exposition import Sample
from headwater.cli.app import VERBS, app
from tests.unit.cdc.alarms.cases import CASES, Case

MINUTE_S = 60


def test_there_are_eighteen_and_their_codes_and_names_are_unique() -> None:
    assert [alarm.code for alarm in ALARMS] == [f"HW{number:03}" for number in range(1, 19)]
    assert len({alarm.name for alarm in ALARMS}) == len(ALARMS)


@pytest.mark.parametrize(
    ("path", "text"), files().items(), ids=lambda one: getattr(one, "name", "")
)
def test_what_is_written_from_the_catalog_is_as_it_would_be_written_now(
    path: Path, text: str
) -> None:
    assert path.read_text(encoding="utf-8") == text, "run `make alarms`"


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.code)
def test_an_alarm_is_built_on_metrics_of_the_catalog_and_says_what_to_do(alarm: Alarm) -> None:
    for condition in alarm.conditions:
        assert set(metrics_of(condition)) <= set(CATALOG)
        assert "source" in condition.labels
    assert set(re.findall(r"\{(\w+)\}", alarm.summary)) <= set(labels_of(alarm))
    guide = alarm.guide
    assert min(len(guide.causes), len(guide.look), len(guide.recover)) > 0
    for line in (guide.means, *guide.causes, *guide.look, *guide.recover):
        assert line.endswith("."), line
        named = set(re.findall(r"`(headwater_\w+)`", line))
        assert named <= {metric.exported for metric in CATALOG}


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.code)
def test_an_alarm_is_silenced_by_causes_of_the_same_source_that_are_not_silenced_by_it(
    alarm: Alarm,
) -> None:
    for code in alarm.inhibited_by:
        assert alarm.code not in BY_CODE[code].inhibited_by
        assert shared_labels(alarm, BY_CODE[code])[0] == "source"
    rules = yaml.safe_load(next(text for path, text in files().items()
                                if path.name == "alertmanager.yml"))["inhibit_rules"]  # fmt: skip
    found = [one["source_matchers"] for one in rules
             if one["target_matchers"] == [f"code = {alarm.code}"]]  # fmt: skip
    assert found == [[f"code = {code}"] for code in alarm.inhibited_by]


def commands() -> list[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in files() if path.suffix == ".md")
    return sorted(set(re.findall(r"`headwater\s([^`]+)`", text)))


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_page_exists_with_its_options(command: str) -> None:
    words, found = command.split(), typer.main.get_command(app)
    assert words[0] in VERBS
    with found.make_context("headwater", [], resilient_parsing=True) as context:
        while isinstance(found, Group):
            one = found.get_command(context, words.pop(0))
            assert one is not None, command
            found = one
        try:
            found.make_context(command, [word.replace("ID", "7") for word in words])
        except UsageError as error:
            pytest.fail(f"{command}: {error}")


def test_a_shorter_minute_shortens_windows_and_what_alarms_are_held_for() -> None:
    rules = yaml.safe_load(prometheus_rules(1))["groups"][0]["rules"]
    by_code = {rule["labels"]["code"]: rule for rule in rules}
    assert "[10s]" in by_code["HW003"]["expr"]
    assert by_code["HW003"]["for"] == "5s"
    assert not re.search(r"\[\d+m\]", str(rules))
    assert "for" not in by_code["HW005"]


@pytest.mark.parametrize(
    "case",
    [one for one in CASES if one.of_one_process],
    ids=lambda case: f"{case.code} {case.why}",
)
def test_our_own_judge_says_what_prometheus_says(case: Case) -> None:
    conditions = BY_CODE[case.code].conditions
    readings = Readings([metric for one in conditions for metric in remembered_by(one)])
    for now_s in range(0, 35 * MINUTE_S, 10):
        readings.add(
            now_s,
            [
                Sample(
                    line.metric, line.labels, line.word if line.metric.states else line.at(now_s)
                )
                for line in case.lines
                if now_s <= line.until_s
            ],
        )
    held = {
        tuple(zip(one.labels, labels, strict=True)) for one in conditions
        for labels in one.holds(readings)
    }  # fmt: skip
    tells = case.fires and all(line.until_s > now_s for line in case.lines)
    assert held == ({tuple(case.fired.items())} if tells else set()), "who is gone tells nothing"
