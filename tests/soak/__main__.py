"""``python -m tests.soak``: the whole path under a steady load, with a fault each minute."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.soak.growth import BOUNDS, changes, judged
from tests.soak.picture import svg
from tests.soak.run import Soaked, Work, soak

HOME: Final = Path(".headwater/soak")
RATE_PER_S: Final = 20.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when views equal the source and nothing has grown, else 1; 2 for wrong usage."""
    options = _options().parse_args(arguments)
    if options.minutes < 2:
        _options().error("--minutes: at least 2")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(stderr=True)
    console.print(f"{options.minutes} minutes, servers and logs in {options.home}")

    def watch(what: str) -> None:
        console.print(what, style="dim", markup=False, highlight=False)

    work = Work(options.minutes, options.rate, options.seed, options.quiet)
    done = soak(options.home, work, watch)
    samples, picture = options.home / "soak.json", options.home / "soak.svg"
    samples.write_text(json.dumps(document(done), indent=1) + "\n", encoding="utf-8")
    title = f"{work.minutes} minutes at {work.rate_per_s:g} transactions a second"
    drawn = svg(done.samples, done.faults, work.minutes, title)
    picture.write_text(drawn, encoding="utf-8")
    Console().print(_table(done))
    if judged(work.minutes) is None:
        print("growth is not judged: that takes a run of 21 minutes or more")
    for finding in done.findings:
        print(finding)
    print(f"{len(done.findings)} findings; {samples}, {picture}")
    return 1 if done.findings else 0


def document(done: Soaked) -> Mapping[str, Any]:
    """All that was measured, for JSON."""
    return {
        **done.work._asdict(),
        "transactions": done.transactions,
        "failed": done.failed,
        "findings": list(done.findings),
        "faults": [fault._asdict() for fault in done.faults],
        "samples": [
            {"minute": round(one.minute, 3)}
            | {name: round(value, 3) for name, value in one.values.items()}
            for one in done.samples
        ],
    }


def _table(done: Soaked) -> Table:
    window = judged(done.work.minutes)
    title = "whole run" if window is None else f"minute {window[0]:.0f} to {window[1]:.0f}"
    table = Table("", "first third", "last third", title=f"medians, {title}")
    for name, (before, after) in changes(done.samples, done.work.minutes).items():
        unit = BOUNDS[name].unit
        table.add_row(BOUNDS[name].what, f"{before:,.1f} {unit}", f"{after:,.1f} {unit}")
    table.add_row("transactions", "", f"{done.transactions:,}")
    return table


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=int, default=30, metavar="N", help="how long")
    parser.add_argument("--rate", type=float, default=RATE_PER_S, help="transactions a second")
    parser.add_argument("--seed", type=int, default=1, help="of load and faults")
    parser.add_argument("--quiet", action="store_true", help="no faults; no alarm may fire")
    parser.add_argument("--home", type=Path, default=HOME, help="logs, samples and picture")
    return parser


if __name__ == "__main__":
    sys.exit(main())
