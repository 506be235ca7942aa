"""``headwater explain``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cdc.alarms.catalog import ALARMS
from cdc.alarms.rules import alertmanager_inhibitions, prometheus_rules
from cdc.errors import UsageError
from headwater.cli.app import app


def said(*arguments: str) -> str:
    ended = CliRunner().invoke(app, ["explain", *arguments], catch_exceptions=False)
    assert ended.exit_code == 0
    return ended.stdout


@pytest.mark.parametrize("named", ["HW005", "hw5", "SlotLost", "HeadwaterSlotLost"])
def test_an_alarm_is_explained_by_its_code_or_its_name(named: str) -> None:
    text = said(named)
    assert text.startswith("HW005 SlotLost\n")
    assert "headwater init --again" in text


def test_a_terminal_gets_no_markdown_and_steps_are_counted() -> None:
    text = said("HW010")
    assert not any(mark in text for mark in ("##", "**", "```"))
    assert "\nRecover\n\n1. Mend the cause" in text
    assert "\n2. Run `headwater dead-letters retry VIEW`.\n3. " in text


def test_a_summary_of_the_list_names_what_it_is_about() -> None:
    found = {line.split()[0]: line for line in said().splitlines()}
    assert found["HW013"].endswith("no process reports on view VIEW")
    assert "view VIEW was stopped by" in found["HW011"]
    assert not any("{" in line or "  snapshot  " in line for line in found.values())


def test_without_a_code_all_are_listed() -> None:
    assert [line.split()[0] for line in said().splitlines()] == [one.code for one in ALARMS]
    assert [one["code"] for one in json.loads(said("--json"))] == [one.code for one in ALARMS]


@pytest.mark.parametrize(
    ("code", "near"), [("HW019", "HW0"), ("SlotLoss", "SlotLost"), ("disk full", "")]
)
def test_an_unknown_code_is_refused_with_those_that_are_near(code: str, near: str) -> None:
    with pytest.raises(UsageError) as refused:
        said(code)
    assert refused.value.exit_code == 2
    assert f"no alarm '{code}'" in str(refused.value)
    assert "`headwater explain`: it lists HW001 to HW018" in refused.value.hint
    assert ("Did you mean" in refused.value.hint) == bool(near)
    assert near in refused.value.hint


def test_rules_and_inhibitions_are_printed_for_who_has_no_repository() -> None:
    assert said("--rules") == prometheus_rules()
    assert said("--rules", "--minute", "1") == prometheus_rules(1)
    assert said("--inhibitions") == alertmanager_inhibitions()
