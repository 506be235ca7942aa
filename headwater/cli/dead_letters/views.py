"""``headwater dlq``: events that a view could not apply, and those that wait behind them."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.errors import LogError, UsageError
from headwater.cli.common.context import configured, declared
from headwater.cli.common.output import err, out, print_json
from headwater.cli.dead_letters import state_views
from headwater.cli.view.request import kept_by_state

if TYPE_CHECKING:
    from cdc.config import Config
    from cdc.events.parked import Letter, Letters
    from jobs.dead_letters.retry import Outcome

group = typer.Typer(
    name="dlq",
    help="Events that views could not apply, and what waits behind them (apply.dlq_limit).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
ViewArgument = Annotated[str, typer.Argument(metavar="VIEW")]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON on stdout.")]
KeysOption = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="KEY", help="As `list` shows it, or TOPIC:KEY; may be given several times."
    ),
]


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command(name="list")
def list_(
    ctx: typer.Context,
    views: Annotated[
        list[str] | None, typer.Argument(metavar="[VIEW]...", help="All views by default.")
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="A line for every event.")] = False,
    as_json: JsonOption = False,
) -> None:
    """The parked keys of views: how many events wait, since when, and why. No other values."""
    from headwater.cli.dead_letters.views_display import described, of_events, of_keys

    config = configured(ctx)
    names = list(views or config.views)
    of_state = state_views.waiting(config, [one for one in names if kept_by_state(config, [one])])
    found = {name: letters(config, name) for name in names if name not in of_state}
    if as_json:
        told = {name: described(name, of) for name, of in found.items()}
        told |= {name: state_views.described(name, of) for name, of in of_state.items()}
        print_json([told[name] for name in names])
        return
    grids = [of_events(found) if events else of_keys(found), state_views.table(of_state, events)]
    for grid in grids:
        if grid.row_count:
            out().print(grid)
    if not any(grid.row_count for grid in grids):
        err().print("no dead letters: every event was applied")


@group.command()
def show(
    ctx: typer.Context,
    view: ViewArgument,
    event: Annotated[
        str, typer.Argument(metavar="EVENT", help="TOPIC-PARTITION-OFFSET, or its position.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, the value in it as it was written.")
    ] = False,
) -> None:
    """An event that waits: what it is, why, and its value. `list --events` names them.

    On a terminal the value is laid out, and long texts in it are cut. Elsewhere it is written to
    stdout byte for byte, and what it is to stderr.
    """
    from headwater.cli.common.records import show as shown
    from headwater.cli.dead_letters.views_display import document, fields

    if kept_by_state(configured(ctx), [view]):
        state_views.show_one(configured(ctx), view, event, as_json)
        return
    letter = _letter(configured(ctx), view, event)
    if as_json:
        sys.stdout.write(document(view, letter))
    else:
        shown(fields(view, letter), letter.value)


@group.command()
def retry(
    ctx: typer.Context, view: ViewArgument, key: KeysOption = None, as_json: JsonOption = False
) -> None:
    """Apply the events of parked keys, in order, and let the keys flow again; all by default.

    For when what refused them was mended: the store, its mapping, the schema, the row in the
    source. A key of which something is still refused stays parked, whole: exit code 1. A running
    `headwater apply` lets go of the view for that moment.
    """
    from headwater.cli.dead_letters.views_display import outcome
    from jobs.dead_letters.retry import retry as again
    from jobs.spark.session import spark_session

    config = configured(ctx)
    if kept_by_state(config, [view]):
        state_views.settle(partial(configured, ctx), "retry", view, key, as_json)
        return
    wanted = _wanted(config, view, key)
    if wanted == []:
        _tell_nothing(view, as_json)
        return
    with spark_session(config) as spark:
        done = again(spark, config, view, wanted)
    _tell(view, done, as_json, outcome(view, "applied", done))


@group.command()
def discard(
    ctx: typer.Context,
    view: ViewArgument,
    key: KeysOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Of every parked key.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Give up the events of parked keys: each row stays as it is until its next event.

    What they held is then missing from the view: `headwater verify VIEW --repair` sets the rows
    right, of a view with mirrors `headwater view rebuild VIEW`. A running `headwater apply`
    lets go of the view for that moment.
    """
    from headwater.cli.dead_letters.views_display import outcome, way_back
    from jobs.dead_letters.retry import discard as give_up

    if bool(key) == everything:
        raise UsageError("discard takes --key KEY or --all", "`headwater dlq list` names the keys")
    config = configured(ctx)
    if kept_by_state(config, [view]):
        state_views.settle(partial(configured, ctx), "discard", view, key, as_json)
        return
    wanted = _wanted(config, view, key)
    if wanted == []:
        _tell_nothing(view, as_json)
        return
    done = give_up(config, view, wanted)
    _tell(view, done, as_json, outcome(view, "discarded", done))
    if done.settled and not as_json:
        err().print(
            f"{view}: what these events held is missing until their rows change again: "
            f"{way_back(config, view)} sets them right",
            style="yellow",
            soft_wrap=True,
        )


def letters(config: Config, view: str, values: bool = False) -> Letters:
    """The dead letters of what people read of a view. Raises ``UsageError`` for no such view."""
    from cdc.kafka.broker import Broker
    from jobs.dead_letters.topic import waiting

    declared(config, view)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        return waiting(config, broker, view, values)


def _letter(config: Config, view: str, event: str) -> Letter:
    for letter in letters(config, view, values=True).open.values():
        position = "" if letter.position is None else letter.position.hex()
        if event == letter.id or event.upper() == position:
            return letter
    raise LogError(
        f"there is no dead letter {event} of view {view}", "see headwater dlq list --events"
    )


def _wanted(config: Config, view: str, given: list[str] | None) -> list[str] | None:
    """The keys that are meant, as events have them; None for all, empty if nothing is parked."""
    from headwater.cli.common.records import key_text
    from jobs.dead_letters.retry import names, qualified

    found: dict[str, set[str]] = {}
    for letter in letters(config, view).open.values():
        short = {names(letter), key_text(letter.key)}
        for said in (*short, *(f"{letter.topic}:{one}" for one in short)):
            found.setdefault(said, set()).add(qualified(letter))
    if not found:
        return []
    if given is None:
        return None
    if unknown := [key for key in given if key not in found]:
        raise UsageError(
            f"view {view}: {', '.join(unknown)} is not parked", f"see headwater dlq list {view}"
        )
    for key in given:
        if len(found[key]) > 1:
            raise UsageError(
                f"view {view}: {key} is parked of several tables",
                f"write TOPIC:KEY, as {min(found[key])}",
            )
    return [one for key in given for one in found[key]]


def _tell_nothing(view: str, as_json: bool) -> None:
    if as_json:
        print_json({"view": view, "events": 0, "keys": 0, "left": []})
    else:
        err().print(f"{view}: no dead letters")


def _tell(view: str, done: Outcome, as_json: bool, lines: list[str]) -> None:
    from jobs.dead_letters.retry import qualified

    if as_json:
        left = [{"key": key, "cause": cause} for key, cause in done.left.items()]
        keys = len({qualified(letter) for letter in done.settled})
        print_json({"view": view, "events": len(done.settled), "keys": keys, "left": left})
    else:
        for line in lines:
            out().print(line, soft_wrap=True, markup=False)
    if done.left:
        raise typer.Exit(1)
