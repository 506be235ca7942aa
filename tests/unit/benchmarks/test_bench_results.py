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
from benchmarks.capture.shapes import RACES
from benchmarks.report.display import show
from benchmarks.report.metrics import (
    FIGURES,
    IN_TABLES,
    MEASUREMENTS,
    ON_REQUEST,
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
