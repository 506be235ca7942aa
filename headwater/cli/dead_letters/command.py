"""``headwater dead-letters``: what could not be published or applied, and what waits behind it."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc.errors import LogError, UsageError
from cdc.plural import plural
from headwater.cli.common.confirmation import YesOption, confirm
from headwater.cli.common.context import configured
from headwater.cli.common.output import err, notice, out, print_json
from headwater.cli.common.records import key_text, plain
from headwater.cli.dead_letters import capture, database_views, row_alerts, topic_views
from headwater.cli.dead_letters.entry import Entry, Settled, chosen
from headwater.cli.view.request import kept_by_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdc.config import Config

group = typer.Typer(
    name="dead-letters",
    help="List, retry and discard events that could not be published or applied.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
ViewArgument = Annotated[str, typer.Argument(metavar="VIEW")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
KeysOption = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Key as shown by `list`, or TOPIC:KEY; repeatable. Default of retry: all.",
    ),
]


@group.command(name="list")
def list_(
    ctx: typer.Context,
    views: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VIEW]...",
            help="Views, or alerts.NAME. Default: all, and capture and snapshots.",
        ),
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Show a line per event instead of per key.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List dead letters of views, capture, snapshots and alerts on rows.

    For views: the parked keys, with the number of events that wait. For capture and snapshots: the
    records that were too large for Kafka (capture.oversized). For alerts on rows: the messages that
    their webhook did not take. --json lists every event. Row values other than keys are not shown.

    \b
    Example:
      headwater dead-letters list open_orders --events
    """
    from headwater.cli.dead_letters.display import described, table

    config = configured(ctx)
    names = list(views or config.views)
    found = _of_views(config, [name for name in names if not _is_alert(name)])
    for name in filter(_is_alert, names):
        found += _of_one_alert(config, name)
    if not views:
        found += capture.entries(config)
        found += row_alerts.entries(config)
    if as_json:
        print_json([described(one) for one in found])
    elif found:
        out().print(table(found, events))
    else:
        err().print("no dead letters")


@group.command()
def show(
    ctx: typer.Context,
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="ID as shown by `list` or `list --events`.")
    ],
    view: Annotated[
        str,
        typer.Option(
            "--view",
            metavar="VIEW",
            help="The view, if several parked the event, each for a cause.",
        ),
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with the value as it was written.")
    ] = False,
) -> None:
    """Show one dead letter: origin, cause and value.

    On a terminal the value is formatted, and long texts in it are cut. Otherwise the value is
    written to stdout byte for byte, and the description to stderr.

    \b
    Examples:
      headwater dead-letters show 000000000231E2A800000001 > event.json
      headwater dead-letters show shop.public.orders-0-17 --json | jq .value.after
    """
    from headwater.cli.common.records import show as shown
    from headwater.cli.dead_letters.display import document, fields

    config = configured(ctx)
    if id_.startswith(row_alerts.ID):
        one = _of_alert(config, id_)
    elif capture.ID.fullmatch(id_):
        one = capture.entry(config, id_)
    else:
        one = _of_view(config, id_, view)
    if as_json:
        sys.stdout.write(document(one))
    else:
        shown(fields(one), one.value)


def _of_views(config: Config, views: Sequence[str]) -> list[Entry]:
    """What waits of views, one after the other. Raises ``UsageError`` for one that is not declared,
    ``StateError`` for a state that cannot be read."""
    of_state = [view for view in views if kept_by_state(config, [view])]
    found = database_views.entries(config, of_state) if of_state else {}
    found |= {view: topic_views.entries(config, view) for view in views if view not in found}
    return [one for view in views for one in found[view]]


def _is_alert(name: str) -> bool:
    return name.startswith(row_alerts.PREFIX)


def _of_one_alert(config: Config, alert: str) -> list[Entry]:
    """Raises ``UsageError`` for a name that no alert has."""
    found = row_alerts.entries(config, alert)
    row_alerts.refuse_unknown(config, alert, found)
    return found


def _of_alert(config: Config, wanted: str) -> Entry:
    """With its body. Raises ``LogError`` for none."""
    for one in row_alerts.entries(config):
        if one.id == wanted:
            return one
    raise LogError(f"there is no dead letter {wanted}", "run `headwater dead-letters list`")


def _of_view(config: Config, wanted: str, view: str) -> Entry:
    """With its value; ``also_of`` are the other views that have it for the same cause. Raises
    ``LogError`` for none, ``UsageError`` if several views have it for causes of their own."""
    views = [view] if view else list(config.views)
    found = [one for one in _of_views(config, views) if one.id == wanted]
    if not found:
        where = f" of view {view}" if view else ""
        raise LogError(
            f"there is no dead letter {wanted}{where}", "run `headwater dead-letters list --events`"
        )
    if len({one.cause for one in found}) > 1:
        raise UsageError(
            f"{wanted} is parked in several views: {', '.join(one.view for one in found)}",
            f"add --view {found[0].view}",
        )
    one = _with_value(config, found[0])
    others = [other.view for other in found[1:]]
    return one._replace(facts={**one.facts, "also_of": others}) if others else one


def _with_value(config: Config, one: Entry) -> Entry:
    if kept_by_state(config, [one.view]):
        return one if one.is_row else database_views.with_record(config, one)
    letters = topic_views.entries(config, one.view, values=True)
    return next((letter for letter in letters if letter.id == one.id), one)


@group.command()
def retry(
    ctx: typer.Context, view: ViewArgument, key: KeysOption = None, as_json: JsonOption = False
) -> None:
    """Apply the parked events of a view, or send an alert's messages again, in order.

    First correct the cause: the store, its mapping, the schema, the row in the source, or the
    receiver of the webhook. If an event is refused again, its key stays parked with all of its
    events. VIEW is alerts.NAME for an alert on rows: its messages have the ids that they had; later
    ones of the same keys were sent before.

    Exit codes: 0 nothing of these keys is parked any more, 1 a key stays parked.

    \b
    Example:
      headwater dead-letters retry open_orders
    """
    _settle(ctx, "retry", view, key, as_json)


@group.command()
def discard(
    ctx: typer.Context,
    view: ViewArgument,
    key: KeysOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Discard the events of every parked key.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the parked events of a view, or messages of alerts.NAME, without applying them.

    Their rows stay as they are until their next event. The output names the command that corrects
    them at once. Records that a mirror could not take are discarded for all views of their table;
    the output names these. --all asks for confirmation; when stdin is not a terminal it needs
    --yes.

    \b
    Example:
      headwater dead-letters discard open_orders --all --yes
    """
    if bool(key) == everything:
        raise UsageError(
            "discard needs --key KEY or --all", "run `headwater dead-letters list` to see the keys"
        )
    if everything:
        whose = view if _is_alert(view) else f"view {view}"
        confirm(f"Discard all parked events of {whose}?", yes)
    _settle(ctx, "discard", view, key, as_json)


def _settle(
    ctx: typer.Context, kind: str, view: str, given: list[str] | None, as_json: bool
) -> None:
    """Those of the keys that are ``given``, all if None. Exits with 1 where some are left."""
    config, done = configured(ctx), Settled()
    is_alert = _is_alert(view)
    found = _of_one_alert(config, view) if is_alert else _of_views(config, [view])
    wanted = chosen(view, found, given) if given and found else None
    if found and is_alert:
        done = row_alerts.settle(config, kind, view, wanted)
    elif found and kept_by_state(config, [view]):
        done = database_views.settle(partial(configured, ctx), kind, view, wanted)
    elif found:
        done = topic_views.settle(config, kind, view, wanted)
    if as_json:
        told: dict[str, Any] = {"view": view, **done._asdict()}
        print_json(told)
    elif found:
        tables = {one.table for one in (found if wanted is None else wanted) if one.table}
        _tell(config, kind, view, done, tables)
    else:
        err().print(f"{view}: no dead letters")
    if done.left:
        raise typer.Exit(1)


def _tell(config: Config, kind: str, view: str, done: Settled, tables: set[str]) -> None:
    verb = "applied" if kind == "retry" else "discarded"
    if _is_alert(view) and kind == "retry":
        verb = "delivered"
    out().print(f"{view}: {plural(done.events, 'event')} of {plural(done.keys, 'key')} {verb}")
    for left in done.left:
        out().print(
            f"{view}: {plain(key_text(left['key'].encode()))} stays parked: {left['cause']}",
            soft_wrap=True,
            markup=False,
        )
    if kind != "discard" or not done.events or _is_alert(view):
        return
    if others := database_views.readers(config, tables) - {view}:
        notice(
            f"{view}: the mirror of {', '.join(sorted(tables))} lacks them, so they are discarded "
            f"for {', '.join(sorted(others))}, too"
        )
    notice(
        f"{view}: these rows stay as they are until they change again; "
        f"`{_way_back(config, view)}` corrects them now"
    )


def _way_back(config: Config, view: str) -> str:
    """The command that gives a view what discarded events held. Mirrors in Delta have the rows of
    their tables as they were before, and so has whatever is made from them."""
    from verification.view_facts import kept

    if not kept_by_state(config, [view]) and kept(config, view).maintained:
        return f"headwater view rebuild {view}"
    return f"headwater verify {view} --repair"
