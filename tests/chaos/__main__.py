"""``python -m tests.chaos``: run seeds, one after the other, until all are done."""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from stack.guardian import Guardian
from tests.chaos.faults.plan import KILLS
from tests.chaos.faults.stores import apply_kills, store_kills
from tests.chaos.lanes import in_lanes
from tests.chaos.options import ENGINES, majors, options
from tests.chaos.outcome import Outcome
from tests.chaos.seed import Seed
from tests.chaos.servers.environment import JVM, settings
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.spark import local_spark

HOME: Final = Path(".headwater/chaos")
_SHOWN: Final = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when all seeds ran and none found anything, else 1; 2 for wrong usage."""
    options = _options().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    first = options.first if options.seed is None else options.seed
    seeds = range(first, first + (1 if options.seed is not None else options.seeds))
    console = Console(stderr=options.json)
    if options.lanes > 1:
        summary = in_lanes(options.lanes, seeds, options.home, _of_lane(options))
    else:
        summary = _alone(options, seeds, console)
    if options.json:
        print(json.dumps(summary))
    else:
        console.print(_table(summary))
    return 1 if summary["failures"] or summary["seeds"] < len(seeds) else 0


def _alone(options: argparse.Namespace, seeds: range, console: Console) -> dict[str, Any]:
    began = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        chosen = options.stores, options.faults, options.engine
        for outcome in run(seeds, options.home, console, *chosen):
            outcomes.append(outcome)
            if outcome.findings and options.stop:
                break
    except KeyboardInterrupt:
        console.print(f"interrupted after {len(outcomes)} of {len(seeds)} seeds")
    return summarise(outcomes, time.monotonic() - began)


def _of_lane(options: argparse.Namespace) -> list[str]:
    """What each lane is told as well."""
    told = {"engine": options.engine, "faults": options.faults}
    found = [text for name, value in told.items() if value for text in (f"--{name}", str(value))]
    if options.stores is not None:
        found.append("--stores" if options.stores else "--no-stores")
    return [*found, "--stop"] if options.stop else found


def run(
    seeds: Sequence[int],
    home: Path,
    console: Console,
    stores: bool | None = None,
    faults: int | None = None,
    engine: str | None = None,
    jvm: Lender | None = None,
) -> Iterator[Outcome]:
    """Run the seeds on one set of servers; each failure is told as it comes.

    ``stores``: all of them with views, or none, kept by ``engine``; by default as each seed says.
    ``faults``: the first so many of each. ``jvm``: lent to them; by default one is started where
    seeds borrow it.
    """
    drawn = {seed: options(seed, stores, engine) for seed in seeds}
    whole = any(one.whole for one in drawn.values())
    borrowed = any(one.whole and not one.own_jvm for one in drawn.values())
    columns = (
        TextColumn("chaos"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with (
        nullcontext(jvm) if jvm or not borrowed else _lent() as lent,
        Progress(*columns, console=console) as progress,
        settings(home, majors(seeds), whole, lent) as servers,
    ):
        task = progress.add_task("", total=len(seeds))
        for seed in seeds:

            def watch(what: str, seed: int = seed) -> None:
                progress.update(task, description=f"seed {seed}: {what}")

            server = servers[drawn[seed].major]
            outcome = Seed(server, seed, watch, stores, faults, engine).run()
            give_back_memory()
            progress.advance(task)
            if not console.is_terminal:
                console.print(_line(outcome), highlight=False, soft_wrap=True)
            if outcome.findings:
                console.print(_failure(outcome), markup=False, highlight=False)
            yield outcome


@contextmanager
def _lent() -> Iterator[Lender]:
    os.environ.update(JVM)
    guardian = Guardian()
    with local_spark(guardian, "2g") as spark:
        yield Lender(spark)
    guardian.release()


def give_back_memory() -> None:
    """What a seed read is garbage by now, but the allocator would keep it: a process of 200 seeds
    had 800 MB, with no more objects than after the first. Other C libraries have no such call."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def summarise(outcomes: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    """The figures of all seeds."""
    faults: Counter[str] = Counter()
    for outcome in outcomes:
        faults += outcome.faults
    return {
        "seeds": len(outcomes),
        "failures": [outcome.seed for outcome in outcomes if outcome.findings],
        "transactions": sum(outcome.transactions for outcome in outcomes),
        "changes": sum(outcome.changes for outcome in outcomes),
        "emitted_events": sum(outcome.emitted for outcome in outcomes),
        "dead_letters": sum(outcome.letters for outcome in outcomes),
        "undecided_commits": sum(outcome.undecided for outcome in outcomes),
        "confirmed_samples": sum(outcome.samples for outcome in outcomes),
        "restarted_by_itself": sum(outcome.restarts for outcome in outcomes),
        "whole_path_seeds": sum(outcome.whole for outcome in outcomes),
        "views_compared": sum(outcome.views for outcome in outcomes),
        "view_rows_compared": sum(outcome.rows for outcome in outcomes),
        "view_batches": sum(outcome.batches for outcome in outcomes),
        "kills": sum(faults[name] for name in KILLS),
        "apply_kills": sum(times for name, times in faults.items() if apply_kills(name)),
        "store_kills": sum(times for name, times in faults.items() if store_kills(name)),
        "faults": dict(sorted(faults.items())),
        "seconds": round(seconds, 1),
    }


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="how many")
    parser.add_argument("--first", type=int, default=1, metavar="S", help="the first of them")
    parser.add_argument("--seed", type=int, metavar="S", help="this one only: replays it")
    parser.add_argument("--lanes", type=int, default=1, metavar="N", help="so many at a time")
    parser.add_argument("--home", type=Path, default=HOME, help="servers, logs, kept failures")
    parser.add_argument(
        "--stores",
        action=argparse.BooleanOptionalAction,
        help="views in all stores as well, with headwater apply: in all seeds, or in none;"
        " by default in every third",
    )
    parser.add_argument(
        "--engine", choices=ENGINES, help="what keeps views; by default as the seed says"
    )
    parser.add_argument("--faults", type=int, metavar="N", help="only the first N of each seed")
    parser.add_argument("--stop", action="store_true", help="end at the first failure")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    return parser


def _line(outcome: Outcome) -> str:
    state = "FAILED" if outcome.findings else "good"
    return (
        f"seed {outcome.seed}: {state}, {outcome.transactions} transactions, {outcome.changes} "
        f"changes, {outcome.emitted} emitted, {outcome.letters} dead letters, {outcome.samples} "
        f"samples, {_views(outcome)}{outcome.seconds:.1f} s; {outcome.drawn}:"
        f" {', '.join(outcome.faults)}"
    )


def _views(outcome: Outcome) -> str:
    if not outcome.whole:
        return ""
    return f"{outcome.views} views of {outcome.rows} rows after {outcome.batches} batches, "


def _failure(outcome: Outcome) -> str:
    shown = outcome.findings[:_SHOWN]
    more = len(outcome.findings) - len(shown)
    lines = [f"{len(outcome.findings)} findings in seed {outcome.seed}:", *shown]
    if more:
        lines.append(f"... and {more} more")
    return "\n".join(
        [
            *lines,
            f"kept: {outcome.folder}",
            f"replay: .venv/bin/python -m tests.chaos {outcome.replay}",
        ]
    )


def _table(summary: dict[str, object]) -> Table:
    table = Table(title="chaos", show_header=False)
    for name, value in summary.items():
        if isinstance(value, dict):
            for fault, times in value.items():
                table.add_row(f"  {fault}", str(times))
        elif isinstance(value, list):
            table.add_row(name, ", ".join(map(str, value)) or "none")
        else:
            table.add_row(name, f"{value:,}")
    return table


if __name__ == "__main__":
    sys.exit(main())
