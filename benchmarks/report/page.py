"""The results in ``docs/benchmarks.md``, and what each part takes in ``docs/operations.md``:
written from ``results.json``, never by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.many.figures import MANY_VIEWS
from benchmarks.many.footprint import footprint_headings, footprint_rows
from benchmarks.report.display import (
    number,
    race_row,
    said_target,
    verdict,
    views_headings,
    views_rows,
)
from benchmarks.report.figure import Figure
from benchmarks.report.metrics import (
    GROWTH_ROWS,
    IN_TABLES,
    MEASUREMENTS,
    RACE_FIGURES,
)
from benchmarks.report.results import RESULTS, Results, write_results

_DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = _DOCS / "benchmarks.md"
FOOTPRINT_PAGE: Final = _DOCS / "operations.md"
_BEGIN: Final = "<!-- results: written by headwater bench -->\n"
_END: Final = "<!-- end of results -->\n"
_BAR: Final = 40
_RACE_HEADINGS: Final = (
    "race",
    "capture /s",
    "Debezium /s",
    "`pg_recvlogical` /s",
    "of Debezium",
    "of `pg_recvlogical`",
    "CPU µs: capture",
    "Debezium",
    "`pg_recvlogical`",
    "capture MB",
)


def publish(results: Results, path: Path) -> None:
    """Write the results, and the page if they are those that are published."""
    write_results(path, results)
    if path == RESULTS:
        update_page(PAGE, render(results))
        update_page(FOOTPRINT_PAGE, render_footprint(results))


def update_page(page: Path, rendered: str) -> None:
    """Write what was rendered between the page's marks; a page that is not there is left so."""
    if not page.exists():
        return
    text = page.read_text(encoding="utf-8")
    before, mark, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert mark, page
    assert end, page
    page.write_text(before + mark + rendered + end + after, encoding="utf-8")


def render(results: Mapping[str, float | str]) -> str:
    """Markdown: the machine, the races, the figures; what was not measured is left out."""
    parts = [_machine(results), *_races(results), *_figures(results)]
    parts += [*_views(results), *_growth(results)]
    return "\n" + "\n\n".join(parts) + "\n\n"


def render_footprint(results: Mapping[str, float | str]) -> str:
    """Markdown: memory and CPU of each part."""
    return f"\n{_table(footprint_headings(), footprint_rows(results))}\n\n"


def _machine(results: Mapping[str, float | str]) -> str:
    of = results.get
    return (
        f"{of('date')}, {of('cpu_model')}, {of('cpu_cores')} cores, {of('memory_gb')} GB, "
        f"load {of('load_before')} before; PostgreSQL {of('postgresql_version')}, "
        f"Kafka {of('kafka_version')}, Debezium {of('debezium_version', '-')}, "
        f"librdkafka {of('librdkafka_version')}."
    )


def _races(results: Mapping[str, float | str]) -> Iterator[str]:
    rows = [
        race_row(race, results)
        for race, figures in RACE_FIGURES.items()
        if all(figure.name in results for figure in figures)
    ]
    if rows:
        yield _table(_RACE_HEADINGS, rows)


def _figures(results: Mapping[str, float | str]) -> Iterator[str]:
    rows = [
        _figure(figure, float(results[figure.name]))
        for figures in MEASUREMENTS.values()
        for figure in figures
        if figure.name in results and figure.name not in IN_TABLES
    ]
    if rows:
        yield _table(("figure", "what", "target", "measured", ""), rows)


def _views(results: Mapping[str, float | str]) -> Iterator[str]:
    """Of ``many``: one line a view."""
    if any(one.name in results for figures in MANY_VIEWS.values() for one in figures):
        headings = views_headings()
        yield _table((*headings[:2], *(f"{one}, ms" for one in headings[2:])), views_rows(results))


def _growth(results: Mapping[str, float | str]) -> Iterator[str]:
    """One line a size; bars of the same scale."""
    names = {rows: f"growth_{rows}_batch_ms" for rows in GROWTH_ROWS}
    if all(name in results for name in names.values()):
        took = {rows: float(results[name]) for rows, name in names.items()}
        scale = _BAR / max(took.values())
        rows = [[f"{n:,}", f"{ms:,.0f}", "█" * max(1, round(ms * scale))] for n, ms in took.items()]
        yield _table(("rows of mirrors", "ms for 100 changes of a joined view", ""), rows)


def _figure(figure: Figure, value: float) -> list[str]:
    said = verdict(figure, value)
    shown = f"**{said}**" if said == "missed" else said
    return [f"`{figure.name}`", figure.what, said_target(figure), number(figure, value), shown]


def _table(headings: Sequence[str], rows: list[list[str]]) -> str:
    lines = [list(headings), ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
