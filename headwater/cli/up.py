"""``headwater up``: real servers on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.errors import UsageError
from headwater.cli.common.output import err, out, print_json

if TYPE_CHECKING:
    from rich.status import Status

    from jobs.spark.jars import Advance
    from stack.servers import Endpoints, Notice

HOME_DEFAULT = Path(".headwater/stack")
HomeOption = Annotated[
    Path, typer.Option("--home", metavar="DIR", help="Folder for the servers' data and logs.")
]
DockerOption = Annotated[
    bool,
    typer.Option(
        "--docker", help="Use the containers of docker-compose.yml; needs a Docker engine."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PostgresOption = Annotated[
    str,
    typer.Option(
        "--postgres", metavar="VERSION", help="PostgreSQL version, 16 or 18. A new server gets 18."
    ),
]
OnlyOption = Annotated[
    str,
    typer.Option(
        "--only", metavar="NAMES", help="Only these servers, comma-separated: postgres,kafka,..."
    ),
]

_SNIPPET = """\
[source]
name = "app"
dsn = "{postgres}"
tables = ["public.*"]

[kafka]
bootstrap_servers = "{kafka}"

[stores.search]
kind = "opensearch"
url = "{opensearch}"

[stores.cache]
kind = "redis"
url = "{redis}"

[stores.lake]
kind = "delta"
path = "./lake"
"""


def register(app: typer.Typer) -> None:
    app.command()(up)


def up(
    home: HomeOption = HOME_DEFAULT,
    only: OnlyOption = "",
    docker: DockerOption = False,
    postgres: PostgresOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start PostgreSQL, Kafka, OpenSearch and Redis on this machine, without Docker.

    The servers listen on loopback, on free ports. A server that already runs is left as it is; one
    that has died is restarted on its old port and data. Stop them with `headwater down`.

    \b
    Examples:
      headwater up
      headwater up --only postgres,kafka
    """
    if docker and postgres:
        raise UsageError(
            "--docker and --postgres cannot be combined", "change the image in docker-compose.yml"
        )
    if docker:
        from stack import docker as containers

        endpoints = containers.up()
    else:
        endpoints = _start(home, only, postgres)
    if as_json:
        print_json(dict(sorted(endpoints.addresses.items())))
    else:
        _show(endpoints)


def split_names(only: str) -> list[str] | None:
    """``a,b`` as a list; nothing means all."""
    return [name.strip() for name in only.split(",") if name.strip()] or None


def _start(home: Path, only: str, postgres: str) -> Endpoints:
    from jobs.spark import jars
    from jobs.spark.java import find_java
    from stack import servers
    from stack.postgres import MAJOR

    names = split_names(only)
    with err().status("looking around") as status:
        for name in ("kafka", "opensearch"):
            if names is None or name in names:
                find_java()
                jars.jars(name, _downloads(status, name))
        settings = {"postgres": {MAJOR: postgres}} if postgres else None
        return servers.start(home, names, settings, notice=_notices(status))


def _downloads(status: Status, name: str) -> Advance:
    def advance(done: int, total: int) -> None:
        status.update(f"{name}: downloading jars, {done} of {total}")

    return advance


def _notices(status: Status) -> Notice:
    def notice(name: str, what: str) -> None:
        status.update(f"{name}: {what}")
        if what == "ready":
            status.console.print(f"{name} ready")

    return notice


def _show(endpoints: Endpoints) -> None:
    console = out()
    for name, address in sorted(endpoints.addresses.items()):
        console.print(f"{name:<11} {address}", soft_wrap=True)
    if len(endpoints.addresses) == 4:
        err().print("\nA headwater.toml for them begins so:\n", style="dim")
        err().print(_SNIPPET.format(**endpoints.addresses), markup=False, soft_wrap=True)
