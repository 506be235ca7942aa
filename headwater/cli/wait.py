"""``headwater wait``: until views hold what was committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdc.lsn import format_lsn
from cdc.plural import plural
from headwater.cli.common.context import configured
from headwater.cli.common.output import err, out, print_error, print_json

if TYPE_CHECKING:
    from headwater.view_client import Reached

TIMED_OUT = 3
"""The exit code when the time was over first."""


def register(app: typer.Typer) -> None:
    app.command(name="wait")(wait)


def wait(
    ctx: typer.Context,
    views: Annotated[list[str], typer.Argument(metavar="VIEW...", help="Names of views.")],
    lsn: Annotated[
        str | None,
        typer.Option(
            "--lsn", metavar="LSN", help="LSN to reach. Default: the source's current one."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0, help="Timeout in seconds.")
    ] = 60.0,
    ahead: Annotated[
        bool, typer.Option("--ahead", help="Allow an LSN that the source has not reached yet.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Wait until each VIEW has applied everything that was committed below an LSN.

    Take the LSN from the source's primary after COMMIT: select pg_current_wal_insert_lsn(). A view
    that the commit does not affect reaches it, too; one that was not built yet does not. Rows of
    parked keys (`headwater dead-letters list`) are missing from the view; the output says so. A
    view that has stopped with an error ends the wait at once. If Kafka does not answer, the wait
    continues and says so.

    Exit codes: 0 reached, 1 error, 2 wrong usage or an LSN in the source's future, 3 timeout.

    \b
    Examples:
      headwater wait open_orders
      headwater wait open_orders customers --lsn 0/16B3748 --timeout 5
    """
    from headwater.lag.wait_document import document, late
    from headwater.view_client import Views, parsed
    from verification.view_positions import NotReachedError, StoppedError

    def on_idle(said: str) -> None:
        err().print(said, style="yellow", soft_wrap=True)

    goal = None if lsn is None else parsed(lsn)
    with Views(configured(ctx)) as waiting:
        try:
            reached = waiting.wait(
                *views, lsn=goal, timeout_s=timeout, ahead=ahead, on_idle=on_idle
            )
        except (NotReachedError, StoppedError) as error:
            if as_json:
                print_json(late(views, error.message, waiting.standings(error.lacking)))
            print_error(error.message, error.hint)
            code = TIMED_OUT if isinstance(error, NotReachedError) else error.exit_code
            raise typer.Exit(code) from None
    if as_json:
        print_json(document(views, reached))
        return
    for view in dict.fromkeys(views):
        out().print(line(view, reached), soft_wrap=True, markup=False)
    for view, count in reached.parked.items():
        err().print(
            f"{view}: but for {plural(count, 'parked key')}, whose events could not be "
            f"applied: headwater dead-letters list {view}",
            style="yellow",
            soft_wrap=True,
        )


def line(view: str, reached: Reached) -> str:
    """For people."""
    lsn = format_lsn(reached.lsn)
    seconds = reached.each.get(view, reached.seconds)
    return f"{view}: holds what was committed below {lsn} ({seconds:.2f} s)"
