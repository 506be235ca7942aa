"""The parts of ``headwater bench --only many`` that need no server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from benchmarks import process_usage
from benchmarks.many import shop
from benchmarks.many.figures import MANY, MANY_RATES, MANY_VIEWS
from benchmarks.many.footprint import (
    APPLY,
    CAPTURE,
    PARTS,
    STATE,
    footprint_figures,
    footprint_headings,
    footprint_rows,
)
from benchmarks.many.idle import idle_figures, idle_views
from benchmarks.many.probes import Probes, looking, reached, written_by
from benchmarks.many.readers import key_of, oldest_first
from benchmarks.many.results import Phase, build_figures, phase_figures
from benchmarks.many.shop import FULL, PROBE, PROBES, uuid_text
from benchmarks.many.transactions import MIX, transactions
from benchmarks.many.usage import Taken, processes, using
from benchmarks.many.views import BUILT, STORES, VIEWS, store_lines, view_lines
from benchmarks.report.display import views_headings, views_rows
from cdc.errors import FatalError
from views.parse.definition import parse_view

FIRST = 2_000_000


def test_there_are_ten_views_of_the_promised_kinds_in_four_stores() -> None:
    parsed = [parse_view(v.name, v.store, v.key, v.sql, v.history) for v in VIEWS]
    assert len(parsed) == 10
    assert {view.store for view in VIEWS} == STORES.keys() == {view.store for view in BUILT}
    assert sorted(view.history for view in VIEWS if view.history) == ["log", "scd2"]
    tables = {view.name: len(one.occurrences) for view, one in zip(VIEWS, parsed, strict=True)}
    assert (tables["product_search"], tables["order_summary"]) == (1, 3)
    assert tables["order_documents"] == 5
    assert all("mark" in view.sql for view in VIEWS)


def test_the_configuration_is_toml_that_holds_every_view() -> None:
    lines = [*store_lines("redis://r", "http://o", "postgresql://p", "/lake")]
    config = tomllib.loads("\n".join([*lines, *view_lines([*VIEWS, *BUILT])]))
    assert config["stores"].keys() == STORES.keys()
    assert config["views"].keys() == {view.name for view in (*VIEWS, *BUILT)}
    assert config["views"]["order_log"]["history"] == "log"


def test_idle_views_are_fifty_of_several_kinds_and_cost_what_they_cost_beside_the_first() -> None:
    views = idle_views(50)
    assert len({view.name for view in views}) == 50
    parsed = [parse_view(v.name, v.store, v.key, v.sql, v.history) for v in views]
    assert {len(one.occurrences) for one in parsed} == {1, 2}
    figures = idle_figures(Taken(0.125, 500), Taken(0.25, 650))
    assert figures == {"idle_50_views_cpu": 0.125, "idle_50_views_rss_mb": 150}
    assert idle_figures(Taken(0.2, 500), Taken(0.1, 400))["idle_50_views_cpu"] == 0
    assert {figure.name for figure in MANY} >= figures.keys()


def test_every_table_is_filled_with_rows_for_probes_beside_the_others() -> None:
    filled = dict(shop.row_sql(FULL))
    assert tuple(filled) == shop.NAMES
    assert all(f"create table {name} (" in shop.TABLES for name in filled)
    with_probes = [name for name, sql in filled.items() if str(PROBE) in sql]
    assert with_probes == [name for name in shop.NAMES if name != "categories"]
    assert all("{" not in sql for sql in filled.values())


def test_keys_are_those_that_the_database_computes() -> None:
    assert uuid_text("product", 7) == "25af5e40-0ea6-0e92-6e40-f0071307c2e2"
    assert shop.uuid_of("product", "7") == "md5('product ' || (7))::uuid"


def test_the_load_is_the_same_for_the_same_seed_and_has_its_mix() -> None:
    some = list(islice(transactions(FULL, 1, FIRST), 5_000))
    assert some == list(islice(transactions(FULL, 1, FIRST), 5_000))
    assert some != list(islice(transactions(FULL, 2, FIRST), 5_000))
    kinds = Counter(one.kind for one in some)
    assert sum(MIX.values()) == 100
    for kind, share in MIX.items():
        assert kinds[kind] == pytest.approx(share * 50, rel=0.3)
    for sql, values in (statement for one in some for statement in one.statements):
        assert sql.count("%s") == len(values)


def test_the_load_leaves_the_rows_of_probes_alone() -> None:
    theirs = {str(of) for mark in range(PROBES) for of in list(written_by(mark).values())[1:]}
    values = (
        value
        for one in islice(transactions(FULL, 1, FIRST), 5_000)
        for _, of_statement in one.statements
        for value in of_statement
    )
    assert not any(str(value) in theirs for value in values)


def test_a_later_mark_of_the_same_place_stands_for_those_before() -> None:
    assert reached([1, 2, PROBES + 1], [PROBES + 1]) == [1, PROBES + 1]
    assert reached([1, 2, PROBES + 2], [1, 0]) == [1]
    assert reached([PROBES + 1], [1]) == []


class _Source:
    """Stands for a connection: a commit is instant."""

    def execute(self, _query: bytes, _values: object) -> None:
        """Nothing is written."""


def test_what_was_not_seen_has_taken_as_long_as_it_is_on_its_way() -> None:
    probes, source = Probes(["a", "b"]), _Source()
    begin = time.monotonic_ns()
    for _ in range(3):
        probes.send(source)  # type: ignore[arg-type]
    end = time.monotonic_ns()
    assert probes.unseen("a") == [1, 2, 3]
    probes.note("a", [1, 3, 0], end + 7_000_000_000)
    assert (probes.unseen("a"), probes.unseen("b")) == ([2], [1, 2, 3])
    assert probes.missing(end) == {"a": 1, "b": 3}
    assert probes.missing(begin) == {}
    short, *long = probes.waits_ms("a", begin, end)
    assert 0 <= short < 1_000
    assert all(wait >= 7_000 for wait in long)
    assert probes.waits_ms("b", end, end + 1) == []


def test_a_store_is_looked_at_until_it_shows_a_probe_and_its_fault_is_told() -> None:
    probes, source = Probes(["a", "b"]), _Source()
    answers: Iterator[list[int]] = iter([[], [1], [2]])
    twice, gone = threading.Event(), threading.Event()

    def comes(_marks: object) -> list[int]:
        found = next(answers)
        if found == [2]:
            twice.set()
        return found

    def fails(_marks: object) -> list[int]:
        gone.set()
        raise ConnectionError("gone")

    for _ in range(2):
        probes.send(source)  # type: ignore[arg-type]
    with looking(probes, {"one": {"a": comes}, "two": {"b": fails}}):
        assert twice.wait(30)
        assert gone.wait(30)
    assert probes.unseen("a") == []
    assert probes.unseen("b") == [1, 2]
    with pytest.raises(FatalError, match="gone"):
        probes.check()


def test_the_others_are_asked_for_when_something_has_come() -> None:
    asked: list[list[int]] = []

    def look(marks: Any) -> list[int]:
        asked.append(list(marks))
        return [mark for mark in marks if mark in visible]

    visible: list[int] = []
    some = oldest_first(look)
    assert some([1, 2, 3, 4, 5, 6]) == []
    visible += [2, 6]
    assert some([1, 2, 3, 4, 5, 6]) == [2, 6]
    assert asked == [[1, 2, 3, 4], [1, 2, 3, 4], [5, 6]]


def test_a_probe_is_found_by_the_key_of_each_view() -> None:
    views = {view.name: view for view in VIEWS}
    assert key_of(views["customer_revenue"], PROBES + 3) == str(PROBE + 3)
    assert key_of(views["product_pages"], 3) == uuid_text("product", PROBE + 3)
    assert key_of(views["product_comments"], 3) == uuid_text("comment", PROBE + 3)


def test_a_run_gives_every_figure_that_is_described() -> None:
    waits = {view.name: [100.0, 200.0] for view in VIEWS} | {"order_log": [900.0]}
    taken = dict.fromkeys(PARTS, Taken(0.25, 500))
    figures = build_figures(dict.fromkeys(STORES, 10.0)) | {"many_create_all_s": 60.0}
    for rate in MANY_RATES:
        figures |= phase_figures(Phase(rate, rate, taken, waits, 3, 7))
    figures |= idle_figures(Taken(0.125, 500), Taken(0.25, 650))
    others = {"group_change_ms", "group_change_rows_ms"}
    for condition in ("one_idle", "one_200tx", "ten_idle"):
        figures |= footprint_figures(condition, taken)
    assert figures.keys() | others == {figure.name for figure in MANY}
    assert figures["many_6tx_cpu_cores"] == 0.5
    assert figures["many_6tx_rss_mb"] == 1_000
    cells = {row[0]: row for row in footprint_rows(figures)}
    assert cells["`headwater apply`"][1:] == ["500 MB, 0.25 cores"] * 5
    assert len(footprint_headings()) == 6
    assert figures["many_6tx_p99_ms"] == 200
    assert figures["many_6tx_delta_p99_ms"] == 900
    assert figures["many_200tx_order_log_p50_ms"] == 900
    assert figures["many_build_s"] == 10
    rows = {row[0]: row for row in views_rows(figures)}
    assert rows["order_log"][1:] == ["log", "900", "900", "900", "900"]
    assert rows["product_pages"][1] == "Redis"
    assert len(rows["product_pages"]) == len(views_headings())
    del figures[MANY_VIEWS[6][0].name]
    assert views_rows(figures)[0][2] == "-"


def test_a_state_database_counts_by_its_folder_and_this_process_does_not(tmp_path: Path) -> None:
    burns = "import sys, time\nend = time.process_time() + 0.2\n"
    burns += "while time.process_time() < end: pass\nprint(flush=True)\nsys.stdin.read()"
    command = [sys.executable, "-c", burns]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        subprocess.Popen(command, **pipes) as apply,
        subprocess.Popen([*command, f"--folder={tmp_path}/pg"], **pipes) as database,
    ):
        parts = processes(tmp_path, apply.pid, apply.pid, tmp_path)
        with using({APPLY: parts[APPLY], STATE: parts[STATE]}) as usage:
            for child in (apply, database):
                assert child.stdout is not None
                child.stdout.readline()
            found = process_usage.owners(apply.pid, tmp_path)
            assert set(found) == {apply.pid, database.pid}
            assert os.getpid() not in process_usage.owners(apply.pid, Path(sys.executable))
        assert process_usage.cpu_of_s(found) >= 0.4
        assert usage.of_apply.cpu_cores > 0
        assert usage.of_apply.rss_mb > 5
        assert parts[CAPTURE]() == [apply.pid]
        assert parts["kafka"]() == []
        for child in (apply, database):
            assert child.stdin is not None
            child.stdin.close()
    assert process_usage.pss_mb([apply.pid]) == process_usage.cpu_of_s([apply.pid]) == 0
