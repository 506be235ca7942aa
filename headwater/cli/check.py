"""``headwater check``: what has to change before capture can run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common.context import config_path, configured
from headwater.cli.common.output import out, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from cdc.source.postgres import Connection
    from headwater.check import Finding

_STYLES = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "error": ("error", "red")}


def register(app: typer.Typer) -> None:
    app.command(name="check")(check)


def check(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    sql: Annotated[
        bool,
        typer.Option("--sql", help="Print only SQL that fixes findings, as one script."),
    ] = False,
) -> None:
    """Check source, views, Kafka and stores, and say what to do. Changes nothing.

    With --sql, prints the SQL of those findings that SQL alone fixes, to be run by the tables'
    owner or a superuser. Statements that only fix warnings are commented out. What needs a choice
    (a primary key or REPLICA IDENTITY FULL, a setting) stands in the findings only.

    Exit codes: 0 no finding is an error, 1 at least one is.

    \b
    Examples:
      headwater check
      headwater check --sql | psql -U postgres shop
    """
    from cdc.errors import UsageError
    from headwater.check import errors_of, preflight
    from headwater.check.exposure import open_connections, open_metrics, readable_secrets
    from headwater.cli.serve.settings import serve

    if sql and as_json:
        raise UsageError("--sql and --json cannot be combined", "leave one out")
    config = configured(ctx)
    findings = [
        *readable_secrets(config_path(ctx)),
        *open_connections(config),
        *open_metrics(config),
        *serve(config),
        *preflight(config, lambda conn: snapshot_status(conn, config.source.name)),
    ]
    errors = errors_of(findings)
    if as_json:
        print_json({"errors": len(errors), "findings": [asdict(f) for f in findings]})
    elif sql:
        for line in script(findings):
            typer.echo(line)
    else:
        show(findings, out())
    if errors:
        raise typer.Exit(1)


def snapshot_status(conn: Connection, source: str) -> str | None:
    """How far ``headwater init`` came: None, running or complete."""
    from snapshots.state import read_state

    state = read_state(conn, source)
    return state.status if state else None


def script(findings: Sequence[Finding]) -> Iterator[str]:
    """The statements of all findings, each once, behind what they are for."""
    seen = set[str]()
    for finding in findings:
        fresh = [statement for statement in finding.sql if statement not in seen]
        seen.update(fresh)
        if fresh:
            yield f"-- {finding.level}: {' '.join(finding.message.split())}"  # one line
        before = "-- " if finding.level == "warning" else ""
        yield from (f"{before}{statement};" for statement in fresh)


def show(findings: list[Finding], console: Console) -> None:
    """The findings as a table, what to do below each, and one line that counts them."""
    from rich.table import Table
    from rich.text import Text

    grid = Table()
    grid.add_column("")
    grid.add_column("check", overflow="fold")
    grid.add_column("finding, and what to do", overflow="fold")
    for finding in findings:
        label, style = _STYLES[finding.level]
        # Text, not markup: names may hold brackets.
        said = Text(finding.message)
        if finding.hint:
            said.append(f"\n{finding.hint}", "bold")
        grid.add_row(Text(label, style), Text(finding.check), said)
    console.print(grid)
    if stated := dict.fromkeys(finding.check for finding in findings if finding.sql):
        console.print(
            f"headwater check --sql prints, as one script, the SQL of: {', '.join(stated)}"
        )
    counts = {level: sum(f.level == level for f in findings) for level in _STYLES}
    console.print(", ".join(_counted(level, count) for level, count in counts.items() if count))


def _counted(level: str, count: int) -> str:
    return f"{count} {level}{'s' if count > 1 and level != 'ok' else ''}"
