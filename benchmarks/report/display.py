"""How ``headwater bench`` shows itself: a bar for each measurement, at the end one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.many.figures import MANY_RATES
from benchmarks.many.views import STORES, VIEWS
from benchmarks.report.figure import Figure
from benchmarks.report.metrics import FIGURES, IN_TABLES, MEASUREMENTS, RACE_FIGURES
from benchmarks.report.results import Results

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from benchmarks.environment import Watch

_STYLES = {"met": "green", "missed": "bold red", "": "dim"}


class Bars:
    """One line a measurement: what it does now and how far it is."""

    def __init__(self, console: Console, names: Iterable[str]) -> None:
        from rich import progress

        self._progress = progress.Progress(
            progress.TextColumn("{task.fields[name]:<9}", markup=False),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.description}", markup=False),
            progress.TimeElapsedColumn(),
            console=console,
            refresh_per_second=4,  # who draws takes time from who is measured
        )
        self._tasks = {
            name: self._progress.add_task("", name=name, total=1.0, start=False) for name in names
        }

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def watch(self, name: str) -> Watch:
        """The observer of one measurement, whose clock starts now."""
        task = self._tasks[name]
        self._progress.start_task(task)

        def advance(what: str, part: float) -> None:
            # A bar that is full once has stopped its clock: only ``done`` may fill it.
            self._progress.update(task, description=what, completed=min(part, 0.99))

        return advance

    def done(self, name: str, measured: Mapping[str, float]) -> None:
        """The figures that have a target, or the first, stand beside the full bar."""
        figures = [figure for figure in MEASUREMENTS[name] if figure.target] or MEASUREMENTS[name]
        said = ", ".join(f"{number(figure, measured[figure.name])}" for figure in figures)
        self._progress.update(self._tasks[name], description=said, completed=1.0)
        self._progress.stop_task(self._tasks[name])


def number(figure: Figure, value: float) -> str:
    """``123,456 rows/s``."""
    return f"{value:,.{figure.digits}f} {figure.unit}".rstrip()


def verdict(figure: Figure, value: float) -> str:
    """``met``, ``missed``, or nothing for a figure without a target."""
    if figure.target is None:
        return ""
    return "met" if figure.target.met(value) else "missed"


def show(console: Console, results: Results, names: Sequence[str]) -> None:
    """The races, then target, measured, met or missed; for the measurements that ran."""
    from rich.table import Table
    from rich.text import Text

    if "capture" in names:
        console.print(_races(results))
    if "many" in names:
        console.print(views_table(results))
    grid = Table("figure", "what")
    for heading in ("target", "measured"):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("")
    for name in names:
        for figure in MEASUREMENTS[name]:
            if figure.name in IN_TABLES:
                continue
            value = results[figure.name]
            assert isinstance(value, (int, float)), figure.name
            said = verdict(figure, value)
            grid.add_row(
                figure.name,
                Text(figure.what),
                said_target(figure),
                number(figure, value),
                Text(said, style=_STYLES[said]),
            )
        grid.add_section()
    console.print(grid)
    console.print(
        f"{results['cpu_model']}, {results['cpu_cores']} cores, {results['memory_gb']} GB; "
        f"PostgreSQL {results['postgresql_version']}, Kafka {results['kafka_version']}, "
        f"Debezium {results['debezium_version']}",
        style="dim",
    )


def missed(results: Results, names: Iterable[str]) -> list[str]:
    """Figures that did not reach their target, of the measurements that ran."""
    of_run = [figure.name for name in names for figure in MEASUREMENTS[name]]
    return [name for name in of_run if verdict(FIGURES[name], float(results[name])) == "missed"]


def said_target(figure: Figure) -> str:
    """``≥ 80,000`` or ``< 3``; nothing for a figure without a target."""
    if figure.target is None:
        return ""
    sign = "≥" if figure.target.at_least else "<"
    return f"{sign} {figure.target.value:,.12g}"


def _races(results: Results) -> Table:
    """One line a race: changes a second of each racer, capture's share of them, CPU, memory."""
    from rich.table import Table

    grid = Table("race", title="rows of each shape, 1,000 or 1 a transaction")
    headings = ("capture", "Debezium", "pg_recv-\nlogical", "of\nDebezium", "of pg_\nrecvl.")
    for heading in (*headings, "CPU µs\ncapture", "CPU µs\nDebezium", "MB"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for race in RACE_FIGURES:
        *cells, _, memory = race_row(race, results)
        grid.add_row(*cells, memory)
    return grid


def race_row(race: str, results: Mapping[str, float | str]) -> list[str]:
    """A race: changes a second of each racer, capture's shares of them, CPU of each, memory."""
    rates, cpu = (
        [
            float(results[f"{racer}_{race}_{what}"])
            for racer in ("capture", "debezium", "recvlogical")
        ]
        for what in ("changes_per_s", "cpu_us")
    )
    return [
        race,
        *(f"{rate:,.0f}" for rate in rates),
        *(f"{rates[0] / peer:.2f}" for peer in rates[1:]),
        *(f"{of_racer:.1f}" for of_racer in cpu),
        f"{float(results[f'capture_{race}_rss_mb']):.0f}",
    ]


def views_rows(results: Mapping[str, float | str]) -> list[list[str]]:
    """Of ``many``: each view, its store, and its p50 and p99 in ms at each rate."""
    return [
        [view.name, view.history or STORES[view.store], *_of_view(results, view.name)]
        for view in VIEWS
    ]


def views_headings() -> list[str]:
    """Of these rows."""
    return ["view", "in", *(f"{rate}/s {of}" for rate in MANY_RATES for of in ("p50", "p99"))]


def views_table(results: Mapping[str, float | str]) -> Table:
    """The same for a terminal."""
    from rich.table import Table

    grid = Table(title="commit to a reader, ms, at 6 and 200 transactions a second")
    for number, heading in enumerate(views_headings()):
        grid.add_column(heading, justify="right" if number > 1 else "left", no_wrap=True)
    for row in views_rows(results):
        grid.add_row(*row)
    return grid


def _of_view(results: Mapping[str, float | str], view: str) -> Iterator[str]:
    for rate in MANY_RATES:
        for of in ("p50", "p99"):
            value = results.get(f"many_{rate}tx_{view}_{of}_ms")
            yield "-" if value is None else f"{float(value):,.0f}"
