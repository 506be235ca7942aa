"""``headwater view``: generations of views, built beside what is read and shown at once."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common.confirmation import YesOption
from headwater.cli.common.context import MasterOption, configured, configured_for
from headwater.cli.common.output import err, out, print_json
from headwater.cli.view.build import build, told_of_rollback
from headwater.cli.view.request import command, kept_by_state, over_mirrors, result, telling

if TYPE_CHECKING:
    from bootstrap.build import Built
    from cdc.config import Config

group = typer.Typer(
    name="view",
    help="Build views from a snapshot, beside what is read, and show them at one moment.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
ViewArgument = Annotated[str, typer.Argument(metavar="VIEW")]
ViewsArgument = Annotated[list[str], typer.Argument(metavar="VIEW...", help="Of [views].")]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON on stdout.")]
HoldOption = Annotated[
    bool,
    typer.Option(
        "--hold", help="Keep it beside what is read until stopped; `rebuild` then switches."
    ),
]
NewHistoryOption = Annotated[
    bool,
    typer.Option(
        "--new-history",
        help="Also where the store keeps history of the view: it begins anew, with a snapshot.",
    ),
]


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command(name="list")
def list_(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Every view: what people read, what is being built, what can be gone back to.

    A view that is not declared any more is listed until `headwater view drop` removes its rows.
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
        bool, typer.Option("--plan", help="The queries that find and make changed rows, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """A view: its SQL, how it is kept, what it holds by now, and its generations.

    What a server that is away would tell is left out, and said to be.
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
    as_json: JsonOption = False,
) -> None:
    """Fill new views from a snapshot and show them when they have caught up with the stream.

    Kafka needs no history for it, and nothing else sees anything of it. Killed at any moment, the
    same command goes on. Then `headwater apply` keeps the views.
    """
    config = configured_for(ctx, master)
    mirrored = over_mirrors(config, known(config, views), as_json)
    if mirrored:
        build(partial(configured_for, ctx, master), "create", mirrored, hold, as_json, new_history)
    if others := [view for view in views if view not in mirrored]:
        _build(config, others, hold, as_json, new=True, new_history=new_history)


@group.command()
def rebuild(
    ctx: typer.Context,
    views: ViewsArgument,
    hold: HoldOption = False,
    master: MasterOption = None,
    new_history: NewHistoryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build views anew, as they are declared now, beside what people read; then switch.

    A running `headwater apply` keeps the old generation until the switch and the new one from
    then on. The old one is kept for `rollback`. Killed at any moment, `rebuild` goes on.
    """
    config = configured_for(ctx, master)
    mirrored = over_mirrors(config, known(config, views), as_json)
    if mirrored:
        build(partial(configured_for, ctx, master), "rebuild", mirrored, hold, as_json, new_history)
    if others := [view for view in views if view not in mirrored]:
        _build(config, others, hold, as_json, new=False, new_history=new_history)


@group.command()
def rollback(
    ctx: typer.Context,
    view: ViewArgument,
    to: Annotated[
        int | None,
        typer.Option("--to", metavar="N", help="A retired generation; by default the last."),
    ] = None,
) -> None:
    """Show an earlier generation again, at once; `apply` then brings it up to date."""
    from bootstrap.run import roll_back
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
    view: ViewArgument,
    generation: Annotated[
        int | None,
        typer.Option("--generation", metavar="N", help="Only one that nobody reads."),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Delete a view's rows from its store, with all that is known of it; or one generation.

    Also a view that is not declared any more; its store still has to be. Take one that is declared
    out of the configuration, too: the next `headwater apply` builds it again. On a terminal it asks
    first.
    """
    from bootstrap.run import drop_view
    from headwater.cli.common.confirmation import confirm, on_terminal
    from jobs.state.views.undeclared_views import with_undeclared

    def reload() -> Config:
        return with_undeclared(configured(ctx))

    config = reload()
    store = config.views[known(config, [view])[0]].store
    what = "all rows" if generation is None else f"generation {generation}"
    confirm(f"Delete {what} of view {view} from {store}?", yes or not on_terminal())
    if kept_by_state(config, known(config, [view])):
        wanted = command("drop", view, generation=generation)
        dropped = result(reload, wanted)["dropped"]
    else:
        with telling() as teller:
            dropped = drop_view(config, view, generation, teller)
    for number in dropped:
        out().print(f"{view}: generation {number} dropped")


def known(config: Config, names: list[str]) -> list[str]:
    """The names, if all are declared. Raises ``UsageError``."""
    from jobs.direct.views import chosen

    return chosen(config, names)


def _build(
    config: Config, views: list[str], hold: bool, as_json: bool, new: bool, new_history: bool
) -> None:
    from bootstrap.run import build_views
    from headwater.cli.common.output import print_error

    known(config, views)
    with telling() as teller:
        built, failed = build_views(config, views, hold, new, teller, new_history)
    if as_json:
        print_json([document(one) for one in built])
    else:
        for one in built:
            out().print(said(one), soft_wrap=True)
    for one in built:
        if one.dead_letters:
            err().print(lacking(one), style="yellow", soft_wrap=True)
    for fault in dict.fromkeys(str(error) for error in failed.values()):
        print_error(fault)
    if failed:
        raise typer.Exit(1)


def said(built: Built) -> str:
    """One line: what is live now, and how long its parts took."""
    took = ", ".join(f"{name} {seconds:.1f}" for name, seconds in built.seconds.items())
    state = "is live" if built.live else "is held beside what is live"
    seconds = sum(built.seconds.values())
    then = ""
    if built.live and built.applied is False:
        then = f"; nobody applies it now: `headwater apply {built.view}` keeps it"
    return (
        f"{built.view}: generation {built.generation} {state}: {built.rows:,} rows read, "
        f"in {seconds:.1f} s ({took}){then}"
    )


def lacking(built: Built) -> str:
    """One line: which rows the view does not have, and the way to them."""
    return (
        f"{built.view}: {built.dead_letters:,} rows of its table are missing, as they were too "
        "large for Kafka (headwater dead-letters list): once apply keeps the view, headwater "
        f"verify {built.view} names them, and with --repair writes them"
    )


def document(built: Built) -> dict[str, object]:
    """The same as JSON."""
    return {
        "view": built.view,
        "generation": built.generation,
        "live": built.live,
        "rows": built.rows,
        "dead_letters": built.dead_letters,
        "applied": built.applied,
        "seconds": {name: round(seconds, 3) for name, seconds in built.seconds.items()},
    }
