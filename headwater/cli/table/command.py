"""``headwater table``: tables that join and leave while capture runs."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.common.confirmation import YesOption, confirm
from headwater.cli.common.context import captured
from headwater.cli.common.output import err, out, print_json
from headwater.cli.snapshot.command import ForecastOption, JsonOption, RateOption, WorkersOption

group = typer.Typer(
    name="table",
    help="Start or stop capturing tables while capture runs.",
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
        list[str], typer.Argument(metavar="TABLE...", help="Tables: schema.table, or a pattern.")
    ],
    workers: WorkersOption = None,
    rate: RateOption = None,
    despite_forecast: ForecastOption = False,
    as_json: JsonOption = False,
) -> None:
    """Start to capture tables: their rows as of one LSN, and every change since.

    Add the tables to source.tables first. Capture may run or not: it is not interrupted, and no
    other table is read again. Only if a table's key is set in source.keys must capture be stopped
    meanwhile. If the command is interrupted, run it again: it resumes where it stopped.

    It does not start if its rows would take longer to read than the slot lives, or than the volume
    of the source's WAL has room (see `headwater snapshot start --help`).

    \b
    Example:
      headwater table add public.orders
    """
    from headwater.cli.init.command import Display
    from headwater.cli.snapshot.display import describe, progress
    from snapshots.rate import parse_rate
    from snapshots.snapshot_on_demand import Options
    from snapshots.table_addition import join

    config = captured(ctx)
    if rate is not None:
        parse_rate(rate)
    display = Display(err())
    try:
        options = Options("", None, workers, rate, "table add", despite_forecast)
        joined = join(config, tables, options, display)
    finally:
        display.close()
    if as_json:
        print_json([describe(one) for one in joined])
        return
    for one in joined:
        for line in progress(one):
            out().print(line)


@group.command()
def remove(
    ctx: typer.Context,
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="Tables: schema.table, or a pattern.")
    ],
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Stop capturing tables: removes them from the publication. No other table is touched.

    First remove them from source.tables, or list them in source.exclude, and drop the views that
    read them. Capture may run or not. Their topics and the records in them stay. `headwater table
    add` captures a table again, with its rows as of then.

    \b
    Example:
      headwater table remove public.orders --yes
    """
    from headwater.cli.table.removal import carry_out, planned

    config = captured(ctx)
    removal = planned(config, tables)
    for label, topic in zip(removal.labels, removal.topics, strict=True):
        err().print(
            f"{label} leaves publication {removal.publication}; topic {topic} stays",
            soft_wrap=True,
            markup=False,
        )
    confirm("Capture these tables no longer?", yes)
    carry_out(config, removal)
    if as_json:
        print_json({"removed": removal.labels, "topics": list(removal.topics)})
        return
    for label in removal.labels:
        out().print(f"{label} is no longer captured", soft_wrap=True, markup=False)
