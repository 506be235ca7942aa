"""``headwater snapshot``: tables read again at an exact LSN, while everything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common.context import captured
from headwater.cli.common.output import err, out, print_json
from headwater.cli.snapshot.choice import parse_range, tables_of

if TYPE_CHECKING:
    from cdc.config import Config
    from snapshots.status import Standing

group = typer.Typer(
    name="snapshot",
    help="Read tables at an exact LSN into topics of their own, while capture runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
TablesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE",
        help="Tables to read: schema.table, or a pattern.",
        show_default=False,
    ),
]
ViewsOption = Annotated[
    list[str] | None,
    typer.Option("--view", metavar="V", help="Read the tables of this view; repeatable."),
]
NewestArgument = Annotated[
    int | None,
    typer.Argument(metavar="ID", help="Snapshot ID, see `list`. Default: the newest."),
]
IdArgument = Annotated[int, typer.Argument(metavar="ID", help="Snapshot ID, see `list`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        max=64,
        help="Number of reading processes. Default: snapshot.workers.",
    ),
]
RateOption = Annotated[
    str | None,
    typer.Option(
        "--rate",
        help='Rate limit: "5000 rows/s", "20 MB/s" or "none". Default: snapshot.rate.',
    ),
]

ForecastOption = Annotated[
    bool,
    typer.Option(
        "--despite-forecast",
        help="Start it even if the slot would be lost, or the source's disk full, before it ends.",
    ),
]


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command()
def start(
    ctx: typer.Context,
    tables: TablesArgument = None,
    where: Annotated[
        str,
        typer.Option("--where", metavar="SQL", help="Read only rows that match this condition."),
    ] = "",
    key_range: Annotated[
        str | None,
        typer.Option(
            "--key-range",
            metavar="LO:HI",
            help="Read only rows with LO <= first key column < HI; either bound may be left out.",
        ),
    ] = None,
    views: ViewsOption = None,
    workers: WorkersOption = None,
    rate: RateOption = None,
    despite_forecast: ForecastOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read tables into topics <source>.__snapshot.<id>.<schema>.<table>.

    It does not start if it would take longer than the slot lives (max_slot_wal_keep_size), or than
    the volume of the source's WAL has room, at the rate at which the source writes WAL.

    Ctrl-C pauses the snapshot. To continue after a pause or a crash, run `headwater snapshot
    resume ID`.

    \b
    Examples:
      headwater snapshot start public.orders public.customers
      headwater snapshot start public.orders --where "status = 'open'" --rate "10 MB/s"
      headwater snapshot start public.orders --key-range 1000:2000 --workers 2
      headwater snapshot start --view open_orders
    """
    from snapshots.rate import parse_rate
    from snapshots.snapshot_on_demand import Options, create

    config = captured(ctx)
    chosen = [*(tables or ()), *tables_of(config, views or ())]
    if not chosen:
        raise typer.BadParameter("name a table, or a view with --view", param_hint="TABLE")
    if rate is not None:
        parse_rate(rate)
    bounds = where, parse_range(key_range)
    options = Options(*bounds, workers, rate, despite_forecast=despite_forecast)
    snapshot_id = create(config, chosen, options)
    err().print(f"snapshot {snapshot_id}")
    _run(config, snapshot_id, as_json)


@group.command()
def resume(
    ctx: typer.Context,
    snapshot_id: IdArgument,
    despite_forecast: ForecastOption = False,
    as_json: JsonOption = False,
) -> None:
    """Continue a snapshot that was paused, failed or was killed.

    The rest has to end before slot or disk do, as with `start`.

    \b
    Example:
      headwater snapshot resume 3
    """
    from snapshots.refusals import refuse_rest_outliving

    config = captured(ctx)
    if not despite_forecast:
        refuse_rest_outliving(config, snapshot_id)
    _run(config, snapshot_id, as_json)


@group.command()
def pause(ctx: typer.Context, snapshot_id: IdArgument) -> None:
    """Pause a snapshot: its process finishes the chunks it is reading, then exits.

    \b
    Example:
      headwater snapshot pause 3
    """
    _ask(captured(ctx), snapshot_id, "pause")


@group.command()
def cancel(ctx: typer.Context, snapshot_id: IdArgument) -> None:
    """Cancel a snapshot for good and delete its topics.

    \b
    Example:
      headwater snapshot cancel 3
    """
    _ask(captured(ctx), snapshot_id, "cancel")


@group.command(name="list")
def list_(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List all snapshots of the source, the initial one first.

    \b
    Example:
      headwater snapshot list --json
    """
    from cdc.source.postgres import connect
    from headwater.cli.snapshot.display import describe, overview
    from snapshots.status import snapshots

    source = captured(ctx).source
    with connect(source.dsn, application_name="headwater snapshot") as conn:
        found = snapshots(conn, source.name)
    if as_json:
        print_json([describe(one) for one in found])
    else:
        out().print(overview(found))


@group.command()
def status(
    ctx: typer.Context, snapshot_id: NewestArgument = None, as_json: JsonOption = False
) -> None:
    """Show the progress of a snapshot: rows, rate and time left, per table.

    \b
    Example:
      headwater snapshot status 3
    """
    from snapshots.snapshot_on_demand import standing

    _show(standing(captured(ctx), snapshot_id), as_json)


@group.command()
def drop(
    ctx: typer.Context,
    snapshot_ids: Annotated[
        list[int], typer.Argument(metavar="ID", help="Snapshot IDs, see `list`.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Delete finished snapshots: their topics and their records in the source.

    Rows of theirs in the topic of dead letters stay there.

    \b
    Example:
      headwater snapshot drop 3 4
    """
    from headwater.cli.snapshot.display import describe
    from jobs.generations.generation_record import awaited_snapshots
    from snapshots.removal import drop

    config = captured(ctx)
    awaited = awaited_snapshots(config.apply.state, config.source.name)
    dropped = drop(config, snapshot_ids, awaited)
    if as_json:
        print_json([{**describe(one.was), "topics": one.topics} for one in dropped])
        return
    for one in dropped:
        topics = "topic" if len(one.topics) == 1 else "topics"
        out().print(f"snapshot {one.was.id} dropped: {len(one.topics)} {topics}")


def _run(config: Config, snapshot_id: int, as_json: bool) -> None:
    from cdc.capture.memory_allocator import keep_freed_memory
    from cdc.errors import HeadwaterError, SourceError
    from headwater.cli.init.command import Display
    from snapshots.job import StoppedError
    from snapshots.snapshot_on_demand import run

    keep_freed_memory()
    display = Display(err())
    try:
        found = run(config, snapshot_id, display)
    except StoppedError as stopped:
        err().print(stopped.message)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        err().print(f"paused: run `headwater snapshot resume {snapshot_id}` to continue")
        raise
    except HeadwaterError as error:
        if not isinstance(error, SourceError):  # what the source says no to, it says again
            resume = f"Run `headwater snapshot resume {snapshot_id}` to continue."
            error.hint = f"{error.hint} {resume}".strip()
        raise
    finally:
        display.close()
    _show(found, as_json)


def _ask(config: Config, snapshot_id: int, what: str) -> None:
    from snapshots.snapshot_on_demand import ask

    found = ask(config, snapshot_id, what)
    if found.status == "running":
        out().print(f"snapshot {snapshot_id}: {what} when the chunks it reads are done")
    else:
        out().print(f"snapshot {snapshot_id} is {found.status}")


def _show(found: Standing, as_json: bool) -> None:
    from headwater.cli.snapshot.display import describe, progress

    if as_json:
        print_json(describe(found))
    else:
        for line in progress(found):
            out().print(line)
