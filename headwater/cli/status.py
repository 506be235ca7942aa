"""``headwater status``: the servers of ``headwater up``, and the parts of a deployment."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.common.context import config_path, configured
from headwater.cli.common.output import err, out, print_json
from headwater.cli.up import HOME_DEFAULT, HomeOption, JsonOption

if TYPE_CHECKING:
    from headwater.deployment import Part
    from stack.servers import Status

_STYLES = {"running": "green", "deaf": "yellow", "dead": "red", "stopped": "dim"}


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(
    ctx: typer.Context, home: HomeOption = HOME_DEFAULT, as_json: JsonOption = False
) -> None:
    """Show what runs: the servers of `headwater up`, and the parts of a deployment.

    Where `headwater up` was run, lists its servers with process ID, address and log file. A server
    is running (it answers), deaf (it runs but does not answer), dead (it ended unexpectedly;
    `headwater up` restarts it) or stopped.

    With a configuration it asks its source, Kafka, stores and state database whether they answer,
    and shows the lag of capture and each view.

    Exit codes: 0 all is well, 1 a server is dead, deaf or failed, or capture or a view needs help.

    \b
    Examples:
      headwater status
      headwater --config shop.toml status --json
    """
    from headwater.deployment import parts_of
    from stack import servers
    from stack.state import was_started

    deployed = config_path(ctx).exists()
    lines = servers.status(home) if was_started(home) or not deployed else []
    if lines and not as_json:
        _show(lines)
    parts = list(parts_of(configured(ctx))) if deployed else []
    if as_json:
        print_json([*map(_document, lines), *(part._asdict() for part in parts)])
    elif parts:
        _show_parts(parts)
    if not deployed and (elsewhere := never_started(home, "status")):
        err().print(elsewhere, style="yellow", soft_wrap=True)
    if any(line.condition in ("dead", "deaf") for line in lines) or not all(
        part.well for part in parts
    ):
        raise typer.Exit(1)


def _show_parts(parts: list[Part]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("part", "state"):
        table.add_column(heading, no_wrap=True)
    table.add_column("", overflow="fold")
    for part in parts:
        style = "red" if not part.well else "dim" if part.state == "stopped" else "green"
        table.add_row(Text(part.name), Text(part.state, style=style), Text(part.said))
    out().print(table)


def _document(line: Status) -> dict[str, Any]:
    return {
        "name": line.name,
        "state": line.condition,
        "pid": line.pid,
        "address": line.address,
        "since": line.since,
        "log": str(line.log),
    }


def never_started(home: Path, verb: str) -> str:
    """What to say if ``home`` is none of servers: where it is, and which others may be meant."""
    from stack.state import homes_near, was_started

    if was_started(home):
        return ""
    near = [f"try headwater {verb} --home {shlex.quote(str(one))}" for one in homes_near(home)]
    ways = near or ["go to the folder of `headwater up`, or name it with --home DIR"]
    return f"no servers were ever started under {home.absolute()}: {', or '.join(ways)}"


def _show(lines: list[Status]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("server", "state", "pid"):
        table.add_column(heading, no_wrap=True)
    table.add_column("address", overflow="fold")
    table.add_column("since (UTC)", no_wrap=True)
    for line in lines:
        table.add_row(
            line.name,
            Text(line.condition, style=_STYLES[line.condition]),
            str(line.pid or ""),
            line.address,
            line.since[:16].replace("T", " "),
        )
    out().print(table)
    out().print(f"logs: {lines[0].log.parent}", soft_wrap=True)
