"""``headwater status``: which servers of ``headwater up`` run, and the embedded state database."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.common.context import config_path, configured
from headwater.cli.common.output import err, out, print_json
from headwater.cli.up import HOME_DEFAULT, HomeOption, JsonOption

if TYPE_CHECKING:
    from jobs.state.server.status import StateStatus
    from stack.servers import Status

_STYLES = {"running": "green", "deaf": "yellow", "dead": "red", "stopped": "dim"}


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(
    ctx: typer.Context, home: HomeOption = HOME_DEFAULT, as_json: JsonOption = False
) -> None:
    """Show the local servers: state, process ID, address and log file.

    Lists the servers of `headwater up` and, if there is a headwater.toml, the state database that
    `headwater apply` starts. States: running (it answers), deaf (it runs but does not answer),
    dead (it ended unexpectedly; `headwater up` restarts it).

    Exit codes: 0 no server of `headwater up` is dead or deaf, 1 at least one is.

    \b
    Example:
      headwater status --json
    """
    from stack import servers

    lines, state = servers.status(home), _state(ctx)
    if as_json:
        print_json(
            [_document(line) for line in lines] + ([_state_document(state)] if state else [])
        )
    else:
        _show(lines)
        if state:
            _show_state(state)
    if elsewhere := never_started(home, "status"):
        err().print(elsewhere, style="yellow", soft_wrap=True)
    if any(line.condition in ("dead", "deaf") for line in lines):
        raise typer.Exit(1)


def _state(ctx: typer.Context) -> StateStatus | None:
    """Without a configuration, or with one that is wrong, there are servers all the same."""
    from cdc.errors import ConfigError
    from jobs.state.server.status import state_status

    if not config_path(ctx).exists():
        return None
    try:
        return state_status(configured(ctx))
    except ConfigError:
        return None


def _document(line: Status) -> dict[str, Any]:
    return {
        "name": line.name,
        "state": line.condition,
        "pid": line.pid,
        "address": line.address,
        "since": line.since,
        "log": str(line.log),
    }


def _state_document(state: StateStatus) -> dict[str, Any]:
    return {
        "name": "state database",
        "state": state.condition,
        "pid": state.pid,
        "address": str(state.place.socket),
        "since": state.since,
        "log": str(state.place.log),
        "version": state.version,
        "size_bytes": state.size_bytes,
    }


def _show_state(state: StateStatus) -> None:
    from rich.text import Text

    condition = Text(state.condition, style=_STYLES[state.condition])
    pid = f", pid {state.pid}" if state.pid else ""
    size = f"{state.size_bytes / (1 << 20):.0f} MB"
    since = f", since {state.since[:16].replace('T', ' ')}" if state.since else ""
    told = f"{pid}{since}: PostgreSQL {state.version}, {size} in {state.place.directory}"
    out().print(Text("state database: ") + condition + Text(told), soft_wrap=True)


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
