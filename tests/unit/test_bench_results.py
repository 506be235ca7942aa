"""The results of ``headwater bench``: one flat object, merged and judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.latency import percentile
from benchmarks.metrics import FIGURES, MEASUREMENTS, ROWS, Target
from benchmarks.report import missed, verdict
from benchmarks.results import RESULTS, Results, machine_facts, merge, read_results, write_results
from benchmarks.run import chosen, facts
from cdc.cli.bench import DEFAULT_ROWS
from cdc.errors import UsageError

PROMISED = {
    "capture_changes_per_s",
    "snapshot_rows_per_s",
    "capture_rss_mb",
    "commit_to_kafka_p50_ms",
    "commit_to_kafka_p99_ms",
    "demo_s",
}
FACTS = {
    "rows",
    "load_before",
    "date",
    "cpu_model",
    "cpu_cores",
    "memory_gb",
    "headwater_version",
    "python_version",
    "postgresql_version",
    "kafka_version",
    "librdkafka_version",
}


def test_the_file_is_flat_and_every_figure_in_it_is_a_number(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results(path, merge({}, facts(ROWS, 0.5), dict.fromkeys(FIGURES, 1.23456)))
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found.keys() == FIGURES.keys() | FACTS
    assert FIGURES.keys() >= PROMISED
    assert all(isinstance(found[name], (int, float)) for name in FIGURES)
    assert all(isinstance(value, (int, float, str)) for value in found.values())
    assert found == read_results(path)


def test_the_published_file_holds_only_what_is_described_here() -> None:
    published = read_results(RESULTS)
    assert published.keys() <= FIGURES.keys() | FACTS
    assert all(isinstance(published[name], (int, float)) for name in published.keys() & FIGURES)


def test_measuring_some_keeps_the_figures_of_the_others() -> None:
    before: Results = {"date": "then", "demo_s": 200.0, "capture_rss_mb": 99.0, "later_key": 7}
    after = merge(before, {"date": "now"}, {"capture_rss_mb": 80.04})
    assert after == {"capture_rss_mb": 80.0, "demo_s": 200.0, "later_key": 7, "date": "now"}
    assert before["capture_rss_mb"] == 99.0


def test_figures_stand_in_one_order_whatever_was_measured_first() -> None:
    results: Results = {}
    for name in reversed(list(MEASUREMENTS)):
        results = merge(results, {}, {figure.name: 1.0 for figure in MEASUREMENTS[name]})
    assert list(results) == list(FIGURES)


def test_a_file_that_holds_no_results_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert read_results(path) == {}
    for text in ("[1]", "{"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="delete it"):
            read_results(path)


def test_measurements_run_in_their_own_order_and_unknown_ones_are_refused() -> None:
    assert chosen([]) == list(MEASUREMENTS)
    assert chosen(["latency,capture", "memory"]) == ["capture", "memory", "latency"]
    with pytest.raises(UsageError, match="no measurement speed: known: capture, memory"):
        chosen(["speed"])


def test_an_upper_limit_is_missed_when_it_is_reached() -> None:
    assert Target(80_000, at_least=True).met(80_000)
    assert not Target(250, at_least=False).met(250)
    assert verdict(FIGURES["capture_rss_mb"], 249.9) == "met"
    assert verdict(FIGURES["copy_rows_per_s"], 0) == ""
    assert missed({"capture_rss_mb": 300.0, "demo_s": 100.0}, ["memory", "demo"]) == [
        "capture_rss_mb"
    ]


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1.0), (50, 2.0), (75, 3.0), (76, 4.0), (100, 4.0)]
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == value


def test_the_machine_is_named() -> None:
    machine = machine_facts()
    assert machine.keys() <= FACTS
    assert machine["cpu_model"]
    assert float(machine["memory_gb"]) > 0


def test_the_command_and_the_figures_agree_on_the_full_size() -> None:
    assert DEFAULT_ROWS == ROWS
