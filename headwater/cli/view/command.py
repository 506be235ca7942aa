"""``headwater view``: generations of views, built beside what is read and shown at once."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common.confirmation import YesOption
from headwater.cli.common.context import MasterOption, configured, configured_for
from headwater.cli.common.output import err, out, print_json
from headwater.cli.snapshot.command import ForecastOption
from headwater.cli.view.build import build, drop_kept, told_of_drop, told_of_rollback
from headwater.cli.view.diff import diff
from headwater.cli.view.request import kept_by_state, over_mirrors, telling
from headwater.cli.view.snapshot_build import build_from_snapshots

if TYPE_CHECKING:
    from cdc.config import Config

group = typer.Typer(
    name="view",
    help="Build views beside the live ones, swap them in atomically, roll back, and drop them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
ViewArgument = Annotated[str, typer.Argument(metavar="VIEW")]
ViewsArgument = Annotated[list[str], typer.Argument(metavar="VIEW...", help="Names of views.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HoldOption = Annotated[
    bool,
    typer.Option(
        "--hold",
        help="Do not switch: keep the new generation up to date until stopped. `rebuild` switches.",
    ),
]
NewHistoryOption = Annotated[
    bool,
    typer.Option(
        "--new-history",
        help="Also build a view with history; its history starts over.",
    ),
]


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command(name="list")
def list_(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List all views with their generations: live, being built, and available for rollback.

    A view that was removed from the configuration is listed until `headwater view drop` deletes
    its rows.

    \b
    Example:
      headwater view list --json
    """
    from headwater.cli.view.display import described, overview
    from jobs.state.views.undeclared_views import with_undeclared

    config = configured(ctx)
    whole = with_undeclared(config)
    found = [{**described(whole, name), "declared": name in config.views} for name in whole.views]
    if as_json:
        print_json(found)
    else:
        out().print(overview(found))


@group.command()
def show(
    ctx: typer.Context,
    view: ViewArgument,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Also show the queries that find and compute changed rows."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a view: its SQL, how it is maintained, how far it is, and its generations.

    If a server does not answer, its part is left out and the output says so.

    \b
    Example:
      headwater view show open_orders --plan
    """
    from headwater.cli.view.show import gathered, shown
    from jobs.state.views.undeclared_views import with_undeclared

    config = with_undeclared(configured(ctx))
    found = gathered(config, known(config, [view])[0])
    if as_json:
        print_json(found)
        return
    shown(found, out(), plan)
    for problem in found["problems"]:
        err().print(problem, style="yellow", soft_wrap=True, markup=False)


@group.command()
def create(
    ctx: typer.Context,
    views: ViewsArgument,
    hold: HoldOption = False,
    master: MasterOption = None,
    new_history: NewHistoryOption = False,
    despite_forecast: ForecastOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build new views, and publish them when they have caught up.

    The rows are computed from the mirrors in the state database; a table that has no mirror yet is
    read from the source once. With apply.engine = "delta", or mirror = false for the view's table,
    they come from a snapshot of the tables, which does not start if it would take longer than the
    slot lives, or than the volume of the source's WAL has room (see `headwater snapshot start
    --help`).

    Needs no history in Kafka and affects no other view. If it is killed, run it again: it resumes.
    Afterwards `headwater apply` maintains the views.

    \b
    Example:
      headwater view create open_orders
    """
    config = configured_for(ctx, master)
    mirrored = over_mirrors(config, known(config, views), as_json)
    if mirrored:
        build(partial(configured_for, ctx, master), "create", mirrored, hold, as_json, new_history)
    if others := [view for view in views if view not in mirrored]:
        build_from_snapshots(config, others, hold, as_json, True, new_history, despite_forecast)


@group.command()
def rebuild(
    ctx: typer.Context,
    views: ViewsArgument,
    hold: HoldOption = False,
    master: MasterOption = None,
    new_history: NewHistoryOption = False,
    refill: Annotated[
        bool,
        typer.Option("--refill", help="Read the views' tables again from the source, too."),
    ] = False,
    despite_forecast: ForecastOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build views again with their current SQL beside the live ones, and swap them in.

    A running `headwater apply` maintains the live generation until the switch and the new one from
    then on. The old generation is kept for `rollback`. If it is killed, run it again: it resumes.
    With --refill the mirrors of its tables in the state database are filled again from the source
    first; other views over these tables are brought up to date, too.

    \b
    Examples:
      headwater view rebuild open_orders
      headwater view rebuild open_orders --refill
    """
    from cdc.errors import UsageError

    config = configured_for(ctx, master)
    mirrored = over_mirrors(config, known(config, views), as_json)
    others = [view for view in views if view not in mirrored]
    if refill and others:
        raise UsageError(
            f"--refill: {', '.join(others)} has no mirrors in the state database",
            "leave --refill out: without mirrors every rebuild reads the source",
        )
    if mirrored:
        again = partial(configured_for, ctx, master)
        build(again, "rebuild", mirrored, hold, as_json, new_history, refill)
    if others:
        build_from_snapshots(config, others, hold, as_json, False, new_history, despite_forecast)


group.command()(diff)


@group.command()
def rollback(
    ctx: typer.Context,
    view: ViewArgument,
    to: Annotated[
        int | None,
        typer.Option("--to", metavar="N", help="Retired generation. Default: the last one."),
    ] = None,
) -> None:
    """Make an earlier generation live again, at once; `apply` then brings it up to date.

    \b
    Example:
      headwater view rollback open_orders --to 2
    """
    from bootstrap.process import roll_back
    from headwater.cli.view.display import gone_back

    config = configured(ctx)
    if kept_by_state(config, known(config, [view])):
        told_of_rollback(partial(configured, ctx), view, to)
        return
    with telling() as teller:
        done = roll_back(config, view, to, teller)
    out().print(gone_back(view, done, time.time()), soft_wrap=True)
    if done.differing:
        err().print(
            f"{view}: its {done.differing} is not what is declared, it stays as it was built: put "
            f"the old declaration back, or `headwater view rebuild {view}` builds the declared one",
            style="yellow",
            soft_wrap=True,
        )


@group.command()
def drop(
    ctx: typer.Context,
    views: ViewsArgument,
    generation: Annotated[
        int | None,
        typer.Option(
            "--generation", metavar="N", help="Drop only this generation, which must not be live."
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Delete the rows of each VIEW from its store and all its state; or one generation of a view.

    It also drops a view that was removed from the configuration, as long as its store is still
    configured. Remove the view from the configuration, too, or the next `headwater apply` builds
    it again. Asks for confirmation; when stdin is not a terminal it needs --yes.

    \b
    Examples:
      headwater view drop open_orders
      headwater view drop open_orders customers --yes
      headwater view drop open_orders --generation 2 --yes
    """
    from bootstrap.process import drop_view
    from cdc.errors import UsageError
    from headwater.cli.common.confirmation import confirm
    from jobs.state.views.undeclared_views import with_undeclared

    def reload() -> Config:
        return with_undeclared(configured(ctx))

    config = reload()
    names = known(config, views)
    if generation is not None and len(names) > 1:
        raise UsageError("--generation is of one view", "name one view, or leave it out")
    what = "all rows" if generation is None else f"generation {generation}"
    confirm(f"Delete {what} of {stored_in(config, names)}?", yes)
    # One process for all of them, should none be running.
    mirrored = over_mirrors(config, names, as_json=False)
    for name in (one for one in names if one not in mirrored):
        with telling() as teller:
            told_of_drop(name, drop_view(config, name, generation, teller))
    drop_kept(reload, mirrored, generation)


def stored_in(config: Config, names: list[str]) -> str:
    """The views with the stores that hold their rows, for a question."""
    stores: dict[str, list[str]] = {}
    for name in names:
        stores.setdefault(config.views[name].store, []).append(name)
    return " and ".join(
        f"view{'s' * (len(of) > 1)} {', '.join(of)} from {store}" for store, of in stores.items()
    )


def known(config: Config, names: list[str]) -> list[str]:
    """The names, if all are declared. Raises ``UsageError``."""
    from jobs.without_mirrors.views import chosen

    return chosen(config, names)
