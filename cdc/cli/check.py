"""``headwater check``: what has to change before capture can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli.context import configured
from cdc.cli.output import out, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from cdc.preflight import Finding
    from cdc.source.postgres import Connection

_STYLES = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "error": ("error", "red")}


def register(app: typer.Typer) -> None:
    app.command(name="check")(check)


def check(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="The findings as JSON.")] = False,
) -> None:
    """Check source, views, Kafka and stores, and say what to do. Changes nothing.

    Exit code 1 when any finding is an error.
    """
    from cdc.preflight import errors_of, preflight

    config = configured(ctx)
    findings = preflight(config, lambda conn: snapshot_status(conn, config.source.name))
    errors = errors_of(findings)
    if as_json:
        print_json({"errors": len(errors), "findings": [f._asdict() for f in findings]})
    else:
        show(findings, out())
    if errors:
        raise typer.Exit(1)


def snapshot_status(conn: Connection, source: str) -> str | None:
    """How far ``headwater init`` came: None, running or complete."""
    from snapshots.state import read_state

    state = read_state(conn, source)
    return state.status if state else None


def show(findings: list[Finding], console: Console) -> None:
    """The findings as a table, and one line that counts them."""
    from rich.table import Table
    from rich.text import Text

    grid = Table()
    grid.add_column("")
    grid.add_column("check", no_wrap=True)
    grid.add_column("finding", overflow="fold")
    grid.add_column("what to do", overflow="fold")
    for finding in findings:
        label, style = _STYLES[finding.level]
        # Text, not markup: names may hold brackets.
        hint = Text(finding.hint)
        grid.add_row(Text(label, style), Text(finding.check), Text(finding.message), hint)
    console.print(grid)
    counts = {level: sum(f.level == level for f in findings) for level in _STYLES}
    console.print(", ".join(_counted(level, count) for level, count in counts.items() if count))


def _counted(level: str, count: int) -> str:
    return f"{count} {level}{'s' if count > 1 and level != 'ok' else ''}"
