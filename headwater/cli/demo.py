"""``headwater demo``: the story, shown and told."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cdc.errors import HeadwaterError

if TYPE_CHECKING:
    from types import FrameType

    from demo.run_folder import Home

DEFAULT_HOME = Path(".headwater/demo")


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    home: Annotated[
        Path, typer.Option("--home", metavar="DIR", help="Folder for the demo's files.")
    ] = DEFAULT_HOME,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the servers running.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    flights: Annotated[
        int, typer.Option("--flights", min=2000, metavar="N", help="Number of flights to load.")
    ] = 336_776,
    rate: Annotated[
        float, typer.Option("--rate", min=1, metavar="TPS", help="Live transactions per second.")
    ] = 100.0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Random seed of delays and gates.")
    ] = 2013,
) -> None:
    """Run the demo: snapshot, live traffic, two kill -9, and every view verified.

    Loads all flights that left New York in 2013 into PostgreSQL and keeps them as a Delta table, a
    search index and a cache while one day of January plays as live traffic. Starts its own servers
    and stops them.

    Exit codes: 0 every view equals the source, 1 a view differs.

    \b
    Example:
      headwater demo --keep
    """
    from demo.display import display_for
    from demo.report import document, show, succeeded
    from demo.run_folder import Home
    from demo.story import Script, Story, new_board
    from headwater.cli.common.output import err, out, print_json
    from jobs.spark.java import find_java

    find_java()  # before anything is made
    signal.signal(signal.SIGTERM, _interrupt)
    board, place = new_board(), Home(home)
    display = display_for(err(), board)
    display.start()
    story = Story(place, Script(flights, rate, seed), board, display)
    try:
        views, totals = story.run(keep)
    except HeadwaterError as error:
        display.stop()
        _explain(error)
        _look_around(place, keep)
        raise typer.Exit(error.exit_code) from None
    finally:
        display.stop()
    if as_json:
        print_json(document(views, board.stages, totals))
    else:
        show(out(), views, board.stages, totals)
    _look_around(place, keep)
    if not succeeded(views):
        sys.exit(1)


def _explain(error: HeadwaterError) -> None:
    """The fault in one line, and dimmed what a log says about it."""
    from headwater.cli.common.output import err, print_error

    fault, _, log = error.message.partition("\n")
    print_error(fault, error.hint)
    if log:
        err().print(log, style="dim", markup=False, soft_wrap=True)


def _look_around(place: Home, keep: bool) -> None:
    """Where the servers are that ``--keep`` left running."""
    from demo.report import around
    from headwater.cli.common.output import err

    if keep and place.addresses:
        err().print(around(place.addresses, place.path), markup=False, soft_wrap=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
