"""``headwater bench``: how fast it is on this machine, beside PostgreSQL's own tools."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from types import FrameType

DEFAULT_HOME = Path(".headwater/bench")
DEFAULT_ROWS = 1_000_000
_ONLY_HELP = (
    "Only these: capture,forms,memory,restart,latency,snapshot,beside,bootstrap,visible,wait,"
    "apply,joined,growth,many,demo; chaos,snapshot-seeds,view-seeds run only when named. The file"
    " keeps the other results."
)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("bench")(bench)


def bench(
    home: Annotated[
        Path, typer.Option("--home", metavar="DIR", help="Folder for servers and logs.")
    ] = DEFAULT_HOME,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAMES", help=_ONLY_HELP),
    ] = None,
    rows: Annotated[
        int,
        typer.Option(
            "--rows",
            min=1000,
            metavar="N",
            help="Rows. Any number but 1,000,000 is a trial, written to DIR/results.json.",
        ),
    ] = DEFAULT_ROWS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Measure speed, memory and latency, and write benchmarks/results.json.

    Starts its own servers, measures Debezium, pg_recvlogical, COPY, a plain MERGE and
    opensearch-py on the same data, and deletes everything afterwards. Takes 90 minutes. A missed
    target does not change the exit code.

    \b
    Example:
      headwater bench --only capture,latency
    """
    from benchmarks.report import display
    from benchmarks.report.page import publish
    from benchmarks.report.results import (
        RESULTS,
        Results,
        cores,
        load_average,
        merge,
        read_results,
    )
    from benchmarks.run import chosen, facts, measure
    from headwater.cli.common.output import err, out, print_json
    from jobs.spark.java import find_java

    signal.signal(signal.SIGTERM, _interrupt)
    names = chosen(only or [])
    find_java()  # before anything is made
    path = RESULTS if rows == DEFAULT_ROWS else home / RESULTS.name
    results: Results = read_results(path) if rows == DEFAULT_ROWS else {}
    load_before = load_average()
    if load_before > cores() / 2:
        said = f"load {load_before} on {cores()} cores: the figures will be those of a busy machine"
        err().print(said, style="yellow")
    bars = display.Bars(err(), names)

    def done(name: str, measured: Mapping[str, float]) -> None:
        nonlocal results
        bars.done(name, measured)
        results = merge(results, facts(rows, load_before), measured)
        publish(results, path)  # a later measurement may fail

    bars.start()
    try:
        measure(home, names, rows, bars.watch, done)
    finally:
        bars.stop()
    if as_json:
        print_json(results)
    else:
        display.show(out(), results, names)
        out().print(f"written to {path}", style="dim", soft_wrap=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
