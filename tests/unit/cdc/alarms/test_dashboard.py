"""The dashboard for Grafana: every expression parses, and names metrics and labels that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest

from cdc.alarms.files import ROOT
from cdc.metrics.catalog import CATALOG, Metric

DASHBOARD: Any = json.loads((ROOT / "deploy/grafana/headwater.json").read_text(encoding="utf-8"))
EXPORTED = {metric.exported: metric for metric in CATALOG}
OTHERS = {"ALERTS", "process_resident_memory_bytes", "process_cpu_seconds_total"}
"""Prometheus's own, and those of the library's collector of a process."""


def expressions() -> Iterator[tuple[str, str, str]]:
    """Title, expression and legend."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
    for one in DASHBOARD["annotations"]["list"]:
        yield one["name"], one["expr"], ""


def labels_of(metric: Metric) -> set[str]:
    return {*metric.labels, *([metric.name] if metric.states else ()), "job", "instance"}


@pytest.mark.parametrize(("title", "text", "legend"), list(expressions()))
def test_every_expression_parses_and_names_what_is_exported(
    title: str, text: str, legend: str
) -> None:
    assert promql_parser.parse(text).prettify(), title
    names = set(re.findall(r"\b(?:headwater|process)_\w+(?=[\[{)]| \*|$)", text))
    names |= {"ALERTS"} & set(re.findall(r"\w+", text))
    assert names
    assert names <= OTHERS | EXPORTED.keys()
    for name, chosen in re.findall(r"\b(headwater_\w+)\{([^}]*)\}", text):
        assert set(re.findall(r"(\w+)=~?\"", chosen)) <= labels_of(EXPORTED[name])
    known = {label for name in names & EXPORTED.keys() for label in labels_of(EXPORTED[name])}
    shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert shown <= known | {"job", "instance"}


def test_what_is_chosen_from_are_labels_of_metrics_that_exist() -> None:
    for variable in DASHBOARD["templating"]["list"][1:]:
        found = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["query"])
        assert found is not None, variable["query"]
        assert found[2] == variable["name"]
        assert found[2] in EXPORTED[found[1]].labels


def test_every_panel_says_what_it_shows_and_what_it_means_to_have_none() -> None:
    panels = [one for one in DASHBOARD["panels"] if one["type"] != "row"]
    assert len({one["title"] for one in panels}) == len(panels)
    for panel in panels:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["noValue"] in ("no data", "none", "none runs")


def test_nothing_but_idle_and_fresh_is_green() -> None:
    for panel in DASHBOARD["panels"]:
        for mapping in panel.get("fieldConfig", {}).get("defaults", {}).get("mappings", ()):
            green = {state for state, one in mapping["options"].items() if one["color"] == "green"}
            assert green == {"idle", "fresh"}


def test_panels_do_not_overlap_and_their_numbers_are_unique() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}  # fmt: skip
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
