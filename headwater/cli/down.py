"""``headwater down``: stop the servers of ``headwater up``."""

from __future__ import annotations

from typing import Annotated

import typer

from cdc.errors import UsageError
from headwater.cli.common.output import err, out, print_json
from headwater.cli.status import never_started
from headwater.cli.up import (
    HOME_DEFAULT,
    DockerOption,
    HomeOption,
    JsonOption,
    OnlyOption,
    split_names,
)


def register(app: typer.Typer) -> None:
    app.command()(down)


def down(
    home: HomeOption = HOME_DEFAULT,
    only: OnlyOption = "",
    purge: Annotated[
        bool, typer.Option("--purge", help="Also delete their data and logs.")
    ] = False,
    docker: DockerOption = False,
    as_json: JsonOption = False,
) -> None:
    """Stop the servers of `headwater up`, and nothing else. Their data is kept.

    \b
    Examples:
      headwater down
      headwater down --purge    also delete their data, logs and ports
    """
    if only and (purge or docker):
        raise UsageError("--only cannot be combined with --purge or --docker")
    if docker:
        from stack import docker as containers

        containers.down(purge)
        return
    from stack import servers

    elsewhere = never_started(home, "down")
    names = servers.stop(home, split_names(only))
    if purge:
        servers.purge(home)
    if as_json:
        print_json({"stopped": sorted(names), "purged": purge})
        return
    if elsewhere:
        err().print(elsewhere, style="yellow", soft_wrap=True)
        return
    said = f"nothing runs under {home.absolute()}"
    said = f"stopped {', '.join(sorted(names))}" if names else said
    out().print(said + ("; data deleted" if purge else ""), soft_wrap=True)
