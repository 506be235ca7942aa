"""``headwater table``: tables that join while capture runs."""

from __future__ import annotations

from typing import Annotated

import typer

from cdc.cli.context import configured
from cdc.cli.output import err, out, print_json
from cdc.cli.snapshot import JsonOption, RateOption, WorkersOption

group = typer.Typer(
    name="table",
    help="Take more tables into the stream while capture runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.callback()
def table() -> None:
    """A verb of its own for each thing that is done."""


@group.command()
def add(
    ctx: typer.Context,
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="schema.table, or a pattern.")
    ],
    workers: WorkersOption = None,
    rate: RateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Capture more tables: their rows as of one LSN, and every change since.

    First add them to source.tables. Capture may run or not; it is not stopped, and no other table
    is read. Only for a table whose key is in source.keys it has to be stopped meanwhile. After an
    interruption, run it again: it goes on where it was.
    """
    from cdc.cli.init import Display
    from cdc.cli.snapshot_display import describe, progress
    from snapshots.joining import join
    from snapshots.ondemand import Options, parse_rate

    config = configured(ctx)
    if rate is not None:
        parse_rate(rate)
    display = Display(err())
    try:
        joined = join(config, tables, Options("", None, workers, rate, "table add"), display)
    finally:
        display.close()
    if as_json:
        print_json([describe(one) for one in joined])
        return
    for one in joined:
        for line in progress(one):
            out().print(line)
