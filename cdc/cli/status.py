"""``headwater status``: which servers of ``headwater up`` run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cdc.cli.output import err, out, print_json
from cdc.cli.up import HOME_DEFAULT, HomeOption, JsonOption

if TYPE_CHECKING:
    from stack.servers import Status

_STYLES = {"running": "green", "deaf": "yellow", "dead": "red", "stopped": "dim"}


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(home: HomeOption = HOME_DEFAULT, as_json: JsonOption = False) -> None:
    """Show the servers of `headwater up`: state, pid, address, log.

    running: answers. deaf: runs, does not answer. dead: ended unasked; `headwater up` restarts it.
    Exit code 1 when one is dead or deaf.
    """
    from stack import servers

    lines = servers.status(home)
    if as_json:
        print_json(
            [
                {
                    "name": line.name,
                    "state": line.condition,
                    "pid": line.pid,
                    "address": line.address,
                    "since": line.since,
                    "log": str(line.log),
                }
                for line in lines
            ]
        )
    else:
        _show(lines)
    if elsewhere := never_started(home, "status"):
        err().print(elsewhere, style="yellow", soft_wrap=True)
    if any(line.condition in ("dead", "deaf") for line in lines):
        raise typer.Exit(1)


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
