"""``headwater topics``: more partitions for a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.common.confirmation import YesOption, confirm
from headwater.cli.common.context import captured
from headwater.cli.common.output import err, out, print_json

group = typer.Typer(
    name="topics", help="Change topics.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.callback()
def topics() -> None:
    """A verb of its own for each thing that is done."""


@group.command("add-partitions")
def add_partitions(
    ctx: typer.Context,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="schema.table, or outbox.TOPIC for a topic of headwater.emit."
        ),
    ],
    count: Annotated[int, typer.Argument(metavar="N", min=2, help="How many it shall have.")],
    yes: YesOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Give a table's topic more partitions, without loss and in order.

    A table whose route has rows_topic has two topics, and both get them; one that has as many
    already, because other tables share it, is left as it is.

    Stop capture first; apply and serve go on. The command refuses to begin before everything that
    Kafka holds of the table is applied by each view and delivered by each alert: a key whose next
    change goes to another partition then has no earlier change left to wait for. Other consumers
    of the topics have to be at their ends, too; the command does not look at them. If it is
    interrupted, run it again before you start capture.

    \b
    Example:
      headwater topics add-partitions public.orders 12
    """
    from headwater.cli.topics.partitions import carry_out, planned

    config = captured(ctx)
    plan = planned(config, table, count)
    views = f", all of which {', '.join(plan.views)} applied" if plan.views else ""
    for topic, before in plan.before.items():
        err().print(
            f"{topic}: {before} partitions become {count}{views}; other consumers have to be at "
            "its end",
            soft_wrap=True,
            markup=False,
        )
        views = ""  # they read events, which come first
    confirm("Add these partitions? They cannot be removed", yes)
    done = carry_out(config, table, count)
    if as_json:
        topics = [{"topic": topic, "before": before} for topic, before in done.before.items()]
        print_json({"topics": topics, "partitions": done.partitions})
        return
    for topic in done.before:
        out().print(f"{topic} has {done.partitions} partitions now", soft_wrap=True, markup=False)
    out().print("start `headwater capture`", markup=False)
