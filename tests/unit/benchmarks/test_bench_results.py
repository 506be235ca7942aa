"""The results of ``headwater bench``: one flat object, merged and judged."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import fault_seeds
from benchmarks.capture.latency import percentile, waits_ms
from benchmarks.capture.shapes import NARROW, RACES, USUAL, WIDE
from benchmarks.capture.snapshot import Turn, snapshot_figures
from benchmarks.report.display import missed, show, verdict
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
    IN_TABLES,
    MEASUREMENTS,
    ON_REQUEST,
    RACE_FIGURES,
    ROWS,
)
from benchmarks.report.page import FOOTPRINT_PAGE, PAGE, render, render_footprint, update_page
from benchmarks.report.results import (
    RESULTS,
    Results,
    machine_facts,
    merge,
    read_results,
    write_results,
)
from benchmarks.run import chosen, facts
from cdc.errors import UsageError
from headwater.cli.bench import DEFAULT_ROWS

PROMISED = {
    "capture_changes_per_s",
    "capture_vs_debezium",
    "capture_vs_recvlogical",
    "capture_cpu_vs_debezium",
    "forms_vs_debezium",
    "forms_cpu_vs_debezium",
    "capture_rss_mb",
    "restart_s",
    "chaos_seeds",
    "chaos_failures",
    "snapshot_rows_per_s",
    "snapshot_vs_copy",
    "snapshot_vs_debezium",
    "snapshot_rss_mb",
    "snapshot_seeds",
    "snapshot_failures",
    "snapshot_resume_reread_share",
    "stream_p99_during_snapshot_ratio",
    "bootstrap_delta_rows_per_s",
    "bootstrap_redis_rows_per_s",
    "bootstrap_opensearch_rows_per_s",
    *(
        f"visible_{view}_{of}_ms"
        for view in ("redis", "opensearch", "delta", "join")
        for of in ("p50", "p99")
    ),
    *(f"apply_{store}_changes_per_s" for store in ("delta", "redis", "opensearch")),
    "apply_opensearch_vs_bulk",
    "apply_vs_plain_merge",
    "latency_vs_plain_merge",
    "wait_http_over_p99_ms",
    "view_seeds",
    "view_failures",
    "commit_to_kafka_p50_ms",
    "commit_to_kafka_p99_ms",
    *(
        f"many_{rate}tx_{of}"
        for rate in (6, 200)
        for of in ("cpu_cores", "p50_ms", "p99_ms", "delta_p99_ms", "rss_mb")
    ),
    "many_build_s",
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
    "debezium_version",
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
        with pytest.raises(UsageError, match="Delete it"):
            read_results(path)


def test_measurements_run_in_their_own_order_and_unknown_ones_are_refused() -> None:
    assert chosen([]) == [name for name in MEASUREMENTS if name not in ON_REQUEST]
    assert chosen(["demo,chaos"]) == ["demo", "chaos"]
    assert chosen(["latency,capture", "memory"]) == ["capture", "memory", "latency"]
    with pytest.raises(UsageError, match=r"no measurement speed\. Choose from capture, forms"):
        chosen(["speed"])


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


def test_chaos_is_counted_from_what_it_prints() -> None:
    printed = json.dumps({"seeds": 200, "failures": [7, 19], "kills": 900})
    assert fault_seeds.figures("chaos", [printed]) == {"chaos_seeds": 200, "chaos_failures": 2}
    assert fault_seeds.figures("snapshot-seeds", [printed]).keys() == {
        figure.name for figure in MEASUREMENTS["snapshot-seeds"]
    }
    with_spark = json.dumps({"seeds": 20, "failures": [3]})
    assert fault_seeds.figures("view-seeds", [printed, with_spark]) == {
        "view_seeds": 200,
        "view_spark_seeds": 20,
        "view_failures": 3,
    }


def test_seeds_are_found_wherever_the_bench_is_run_from(tmp_path: Path) -> None:
    """The installed command has neither the checkout nor its tests on its path."""
    run = "from pathlib import Path; from benchmarks.fault_seeds import measure_seeds as run; "
    run += "run('snapshot-seeds', Path('home'), lambda _: 1.5, print)"  # refused by the command
    command = [sys.executable, "-P", "-c", run]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "exit code 2" in found.stderr
    assert "invalid int value: '1.5'" in found.stderr


def test_the_tables_show_every_race_and_every_figure_with_its_target() -> None:
    results = merge({}, facts(ROWS, 0.5), dict.fromkeys(FIGURES, 2.0))
    console = Console(width=200, file=StringIO())
    show(console, results, list(MEASUREMENTS))
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert all(race.name in shown for race in RACES)
    assert "< 0.25" in shown
    assert "≥ 80,000" in shown
    assert all(name in shown for name in FIGURES.keys() - IN_TABLES)
    assert "product_comments" in shown


def test_the_machine_is_named() -> None:
    machine = machine_facts()
    assert machine.keys() <= FACTS
    assert machine["cpu_model"]
    assert float(machine["memory_gb"]) > 0


def test_the_command_and_the_figures_agree_on_the_full_size() -> None:
    assert DEFAULT_ROWS == ROWS


def test_the_page_says_what_the_published_file_says(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    results = read_results(RESULTS)
    for original, shown in ((PAGE, render(results)), (FOOTPRINT_PAGE, render_footprint(results))):
        page.write_text(original.read_text(encoding="utf-8"), encoding="utf-8")
        update_page(page, shown)
        assert page.read_text(encoding="utf-8") == original.read_text(encoding="utf-8")


def test_the_page_shows_a_missed_target_and_leaves_out_what_was_not_measured() -> None:
    results = merge({}, facts(ROWS, 0.5), dict.fromkeys(FIGURES, 2.0))
    del results["debezium_wide_1row_cpu_us"]
    shown = render(results)
    assert "| `capture_cpu_vs_debezium` |" in shown
    assert "| < 0.25 | 2.000 | **missed** |" in shown
    assert "| narrow_1row | 2 | 2 | 2 | 1.00 | 1.00 |" in shown
    assert "wide_1row" not in shown
