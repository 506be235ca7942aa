"""``headwater trace``: the way of one row from its commit to the stores."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from headwater.cli.common.context import captured
from headwater.cli.common.output import out, print_json

_RECORDS: Final = 200_000


def register(app: typer.Typer) -> None:
    app.command(name="trace")(trace)


def trace(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table, as public.orders.")],
    key: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...", help="The key's value; COLUMN=VALUE of each column of a longer key."
        ),
    ],
    since: Annotated[
        float | None,
        typer.Option("--since", metavar="S", min=0, help="Search the last S seconds only."),
    ] = None,
    changes: Annotated[
        int, typer.Option("--changes", metavar="N", min=1, help="Number of changes to show.")
    ] = 5,
    records: Annotated[
        int,
        typer.Option("--records", metavar="N", min=1, help="Records of Kafka to search, at most."),
    ] = _RECORDS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show where one row of a table is: its last changes in Kafka, and which views have them.

    For each change: the operation, when it was committed, its LSN, its place in Kafka and how long
    capture took. For each view of the table: whether it has applied the newest change, in which
    batch and when, and if not, what it waits for; the row in its store, if the view's key is the
    table's, and the batch after which it was made. Values of the row are not shown, only keys.

    The search begins at the end of the topic and stops at --records or --since; the output says
    how far it looked. A key is as in `headwater dead-letters list`.

    Exit codes: 0 each view has the newest change, 1 one lacks it, or no change was found.

    \b
    Examples:
      headwater trace orders 42
      headwater trace public.order_lines order_id=42 line=3 --since 3600
      headwater trace orders '{"id": 42}' --json
    """
    from headwater.cli.trace.display import document, show
    from headwater.cli.trace.way import traced

    found = traced(captured(ctx), table, key, changes, records, since)
    if as_json:
        print_json(document(found))
    else:
        show(found, out())
    if not found.log.changes or any(one.applied is not True for one in found.views):
        raise typer.Exit(1)
