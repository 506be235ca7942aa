"""``headwater lag``: one look at how far capture and each view are, or a look each second."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from cdc.errors import HeadwaterError, UsageError
from headwater.cli.common.context import configured
from headwater.cli.common.output import out, print_json

if TYPE_CHECKING:
    from headwater.lag.watch import LagWatch, Seen

_EVERY_S: Final = 1.0


def register(app: typer.Typer) -> None:
    app.command(name="lag")(lag)


def lag(
    ctx: typer.Context,
    views: Annotated[
        list[str] | None, typer.Argument(metavar="[VIEW]...", help="Views to show. Default: all.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second.")] = False,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Also show each partition of each view.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how far capture and the views are behind: state, seconds, records and bytes of WAL.

    The seconds are the age of the oldest change that the store lacks; of alerts on rows, which
    stand below the views, of the oldest that was not looked at or delivered. If something is
    behind, a second look one second later tells how fast it moves.

    \b
    States:
      idle            all that was committed is applied
      fresh           changes are under way, none for longer than 10 s
      catching up     the backlog shrinks
      falling back    the backlog grows
      stalled         there is a backlog, and nothing has moved for 30 s
      blocked         somebody has to act; the cause is shown
      source unknown  no heartbeat came through; the lag is at least what is shown
      no data         nothing is known of it: not started

    Exit codes: 0 however large the lag is (use `headwater health --views --max-lag S` to test it),
    1 if a view has stopped or no process applies it.

    \b
    Examples:
      headwater lag --watch
      headwater lag orders --partitions
    """
    from headwater.cli.lag.display import table
    from headwater.lag.document import document
    from headwater.lag.watch import LagWatch
    from jobs.state.server.reader import reading_state

    if watch and as_json:
        raise UsageError("--watch and --json cannot be combined", "leave one out")
    config = configured(ctx)
    with ExitStack() as stack:
        if not watch and config.apply.engine == "database":
            with suppress(HeadwaterError):  # then nobody knows of parked keys
                stack.enter_context(reading_state(config))
        looks = stack.enter_context(closing(LagWatch(lambda: config, views or ())))
        if watch:
            _watch(looks, partitions)
        seen = _measured(looks.settled())
        if as_json:
            print_json(document(seen))
        else:
            out().print(table(seen, partitions))
        if seen.faults:
            raise typer.Exit(1)


def _measured(seen: Seen) -> Seen:
    """Raises what kept a view from being measured."""
    for error in seen.unmeasured.values():
        raise error
    return seen


def _watch(looks: LagWatch, partitions: bool) -> NoReturn:
    from rich.live import Live

    from headwater.cli.lag.display import table

    first = table(_measured(looks.look()), partitions)
    with Live(first, console=out(), auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(_EVERY_S)
            live.update(table(_measured(looks.look()), partitions), refresh=True)
