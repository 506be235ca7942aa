"""``headwater uninstall``: all that Headwater made for a source is removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.common.confirmation import YesOption, confirm
from headwater.cli.common.context import captured
from headwater.cli.common.output import err, out, print_json

if TYPE_CHECKING:
    from headwater.cli.uninstall.plan import Uninstall


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="uninstall")(uninstall)


def uninstall(
    ctx: typer.Context,
    yes: YesOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove everything that Headwater created for the source and in Kafka.

    Lists what it will remove (slot, publication, schema, topics, consumer groups, state) and asks
    for confirmation; when stdin is not a terminal it needs --yes. Stop capture and apply first.
    The source's tables and the views' rows in their stores are not touched; to delete a view's
    rows, run `headwater view drop VIEW` before. If it is interrupted, run it again.

    \b
    Example:
      headwater uninstall --yes
    """
    from headwater.cli.common.format import size
    from headwater.cli.uninstall.plan import planned
    from headwater.cli.uninstall.steps import carry_out

    config = captured(ctx)
    found = planned(config)
    for line in lines(found, size):
        err().print(line, soft_wrap=True, markup=False)
    if not found.is_empty:
        confirm(f"Remove all of that for source {config.source.name}?", yes)
        carry_out(config, found, tell)
    if as_json:
        print_json(document(found))
    else:
        done = "nothing was there" if found.is_empty else "done"
        out().print(f"source {config.source.name}: {done}", soft_wrap=True, markup=False)


def tell(what: str) -> None:
    """One thing is gone."""
    err().print(what, soft_wrap=True, markup=False)


def lines(found: Uninstall, size: Any) -> Iterator[str]:
    """The plan, for people."""
    if not found.is_empty:
        yield "this is removed:"
    if found.retained is not None:
        yield f"  slot {found.slot}, for which the source keeps {size(found.retained)} of WAL"
    if found.publication:
        yield f"  publication {found.publication}"
    if found.ddl_events:
        yield "  the trigger that tells of DDL"
    if found.schema and not found.others:
        yield "  schema headwater: an application's headwater.emit fails from then on"
    for topic in found.topics:
        yield f"  topic {topic}"
    for group in found.groups:
        yield f"  consumer group {group}"
    if found.state is not None:
        yield f"  {found.state}, the state of views"
    yield from _left(found)


def _left(found: Uninstall) -> Iterator[str]:
    left = [
        f"  rows of view {view} in {store}: run `headwater view drop {view}` before this"
        for view, store in found.views
    ]
    if found.schema and found.others:
        left.append(f"  schema headwater, which {', '.join(found.others)} needs")
    if found.state_database:
        left.append(f"  the state database {found.state_database}: drop it yourself")
    left += [f"  topic {topic}, which Headwater does not know" for topic in found.foreign]
    unbuilt = "of a view that was not built for this source, or that another source has, too"
    left += [f"  topic {topic}, {unbuilt}" for topic in found.unbuilt_topics]
    left += [f"  consumer group {group}, {unbuilt}" for group in found.unbuilt_groups]
    if left:
        yield "this stays:"
        yield from left


def document(found: Uninstall) -> dict[str, Any]:
    """As JSON: what was removed and what stays; sizes in bytes."""
    held = asdict(found)
    views = [{"view": view, "store": store} for view, store in held.pop("views")]
    topics = [*held.pop("foreign"), *held.pop("unbuilt_topics")]
    stays = {"views": views, "topics": topics, "sources": held.pop("others")}
    stays["groups"] = held.pop("unbuilt_groups")
    stays["state_database"] = held.pop("state_database") or None
    return {"removed": {**held, "state": held["state"] and str(held["state"])}, "stays": stays}
