"""Figures of several runs: medians, and the worst that decides."""

from __future__ import annotations

import pytest

from benchmarks.capture.latency import percentile, waits_ms
from benchmarks.capture.shapes import NARROW, RACES, USUAL, WIDE
from benchmarks.capture.snapshot import Turn, snapshot_figures
from benchmarks.report.display import missed, verdict
from benchmarks.report.figure import Target
from benchmarks.report.medians import (
    RACERS,
    Run,
    form_figures,
    race_figures,
    worst,
    worst_form,
)
from benchmarks.report.metrics import (
    FIGURES,
    FORMS,
    MEASUREMENTS,
    RACE_FIGURES,
)


def test_an_upper_limit_is_missed_when_it_is_reached() -> None:
    assert Target(80_000, at_least=True).met(80_000)
    assert not Target(250, at_least=False).met(250)
    assert verdict(FIGURES["capture_rss_mb"], 149.9) == "met"
    assert verdict(FIGURES["chaos_failures"], 0) == "met"
    assert verdict(FIGURES["chaos_failures"], 1) == "missed"
    assert verdict(FIGURES["copy_rows_per_s"], 0) == ""
    assert missed({"restart_s": 3.0, "demo_s": 80.0}, ["restart", "demo"]) == ["restart_s"]


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1.0), (50, 2.0), (75, 3.0), (76, 4.0), (100, 4.0)]
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == value


def test_a_wait_counts_from_its_own_commit_and_the_first_rows_are_left_out() -> None:
    committed = {1: 0, 2: 10_000_000, 3: 510_000_000, 4: 1_010_000_000}
    seen = {1: 900_000_000, 2: 13_000_000, 3: 511_000_000, 4: 1_009_000_000}
    assert waits_ms(committed, seen, 1) == ([-1.0, 1.0, 3.0], 2.0)


def test_races_are_the_three_shapes_in_large_and_in_single_transactions() -> None:
    assert [len(shape.columns) for shape in (NARROW, USUAL, WIDE)] == [3, 7, 60]
    assert len({column.name for column in WIDE.columns}) == 60
    assert len({column.type for column in WIDE.columns}) == 13
    assert sorted(race.name for race in RACES) == sorted(
        f"{shape}_{rows}row" for shape in ("narrow", "usual", "wide") for rows in (1, 1000)
    )
    # psycopg would take it for a placeholder.
    assert not any("%" in column.value for column in (*USUAL.columns, *WIDE.columns))


def test_a_race_gives_medians_and_the_worst_race_decides() -> None:
    figures: dict[str, float] = {}
    for number, race in enumerate(RACES):
        slower = 1 + number / 10
        ours = [Run(speed / slower, cpu * slower, 80.0 + speed) for speed, cpu in ((9, 3), (6, 2))]
        runs = {
            "capture": [*ours, Run(6 / slower, 2 * slower, 20.0)],
            "debezium": [Run(2, 8)] * 3,
            "recvlogical": [Run(12, 1)] * 3,
        }
        assert set(runs) == set(RACERS)
        measured = race_figures(race.name, runs)
        assert measured.keys() == {figure.name for figure in RACE_FIGURES[race.name]}
        figures |= measured
    first, last = RACES[0].name, RACES[-1].name
    assert figures[f"capture_{first}_changes_per_s"] == 6
    assert figures[f"capture_{first}_cpu_us"] == 2
    assert figures[f"capture_{first}_rss_mb"] == 89
    assert figures[f"capture_{last}_changes_per_s"] == 4
    assert worst(figures) == pytest.approx(
        {
            "capture_changes_per_s": figures["capture_usual_1000row_changes_per_s"],
            "capture_vs_debezium": 2.0,
            "capture_vs_recvlogical": 1 / 3,
            "capture_cpu_vs_debezium": 0.375,
        }
    )


def test_forms_of_events_give_medians_and_the_worst_decides() -> None:
    runs = {"capture": [Run(800, 2), Run(600, 3)], "debezium": [Run(200, 10), Run(200, 10)]}
    slow = {"capture": [Run(500, 4)], "debezium": [Run(250, 10)]}
    found = form_figures("schemas", runs) | form_figures("preset", slow)
    found |= form_figures("avro", runs)
    found |= worst_form(found, list(FORMS))
    assert found.keys() == {figure.name for figure in MEASUREMENTS["forms"]}
    assert found["capture_form_schemas_changes_per_s"] == 700
    assert (found["forms_vs_debezium"], found["forms_cpu_vs_debezium"]) == (2, 0.4)


def test_snapshots_give_medians_and_the_worst_shape_beside_debezium_decides() -> None:
    turns = {
        "narrow": [Turn(900, 90, 2700, 100), Turn(800, 80, 2400, 150), Turn(100, 10, 100, 90)],
        "usual": [Turn(300, 50, 1000, 120)] * 3,
        "wide": [Turn(40, 8, 160, 130)] * 3,
    }
    figures = snapshot_figures(turns)
    assert figures.keys() == {figure.name for figure in MEASUREMENTS["snapshot"]}
    assert figures["snapshot_narrow_rows_per_s"] == 800
    assert figures["snapshot_rows_per_s"] == 300
    assert figures["snapshot_vs_copy"] == 0.3
    assert figures["snapshot_vs_debezium"] == 5
    assert figures["snapshot_rss_mb"] == 150
