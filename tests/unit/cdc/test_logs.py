"""What a log line shows, to people and to machines."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import structlog

from cdc.logs import configure


@pytest.fixture(autouse=True)
def _defaults_afterwards() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def logged(capsys: pytest.CaptureFixture[str], *, json_lines: bool) -> str:
    configure(json_lines)
    structlog.get_logger().info("batch_applied", rows=9, fresh_ms=[1.5, *[2.0] * 98, 7.5])
    return capsys.readouterr().err


def test_people_see_the_ends_of_a_long_list(capsys: pytest.CaptureFixture[str]) -> None:
    line = logged(capsys, json_lines=False)
    assert "1.5..7.5 of 100" in line
    assert ", 2.0" not in line


def test_machines_get_it_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(json.loads(logged(capsys, json_lines=True))["fresh_ms"]) == 100


@pytest.mark.parametrize("json_lines", [False, True])
def test_a_trace_has_lines_of_its_own_for_people_alone(
    capsys: pytest.CaptureFixture[str], *, json_lines: bool
) -> None:
    configure(json_lines)
    structlog.get_logger().error("view_stopped", trace="  File a, in b\n    c()\nKeyError\n")
    said = capsys.readouterr().err
    assert ("\n    c()\n" in said) != json_lines
    assert not json_lines or json.loads(said)["trace"].endswith("KeyError\n")
