"""A trial of ``many`` alone, as short as wanted: ``python -m benchmarks.many --help``."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from benchmarks.environment import open_setting, servers_home
from benchmarks.many.figures import MANY_RATES
from benchmarks.many.measure import SECONDS, WARM_UP_S, Plan, measured
from benchmarks.many.shop import FULL
from benchmarks.many.views import BUILT, STORES
from benchmarks.process_usage import require_proc
from benchmarks.report.display import number, views_table
from benchmarks.report.metrics import FIGURES, IN_TABLES, ROWS
from benchmarks.report.results import Results
from stack import servers
from stack.guardian import Guardian


def main() -> None:
    """Measure on servers of its own and print; nothing is published."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.many", description=__doc__)
    options.add_argument("--home", type=Path, default=Path(".headwater/many"))
    options.add_argument("--rates", default=",".join(map(str, MANY_RATES)))
    options.add_argument("--seconds", type=int, default=SECONDS, help="of each rate")
    options.add_argument("--warm-up", type=int, default=WARM_UP_S, help="seconds before each")
    options.add_argument("--part", type=float, default=1.0, help="of the shop's rows")
    options.add_argument("--builds", default=",".join(STORES), help="stores of new views; or none")
    options.add_argument("--engine", default="database", help="of [apply]: delta or database")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    rates = tuple(int(rate) for rate in given.rates.split(",") if rate)
    builds = tuple(view for view in BUILT if view.store in given.builds.split(","))
    sizes = FULL.scaled(given.part)
    show(run(given.home, Plan(rates, given.warm_up, given.seconds, builds, sizes, given.engine)))


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def run(home: Path, plan: Plan) -> dict[str, float]:
    """The figures, also in ``many.json`` of the folder. After a fault servers and logs stay."""
    require_proc()
    console, said, guardian = Console(stderr=True), set[str](), Guardian()

    def watch(what: str, _part: float) -> None:
        if what not in said:
            said.add(what)
            console.print(what, style="dim", markup=False)

    try:
        figures = measured(open_setting(home, ROWS, watch, guardian), plan)
        servers.purge(servers_home(home))
    finally:
        servers.stop(servers_home(home))
        guardian.release()
    return figures


def show(figures: dict[str, float]) -> None:
    """As ``headwater bench`` does."""
    console, results = Console(), Results(figures)
    console.print(views_table(results))
    for name, value in figures.items():
        if name not in IN_TABLES:
            console.print(f"{name:<28} {number(FIGURES[name], value)}", highlight=False)


if __name__ == "__main__":
    main()
