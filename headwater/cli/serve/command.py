"""``headwater serve``: the API over HTTP until stopped; the accounts of its file of users."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cdc.errors import UsageError
from headwater.cli.common.context import captured, config_path, configured
from headwater.cli.common.output import err, out

group = typer.Typer(name="serve", invoke_without_command=True, rich_markup_mode=None)
RoleOption = Annotated[str, typer.Option("--role", help="viewer or operator.")]
TablesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="TABLE",
        help="Table whose row values may be shown: schema.table, schema.* or *; repeatable.",
    ),
]
PrintOption = Annotated[
    bool,
    typer.Option(
        "--print",
        help="Print the lines of the account, for a secret that is mounted, and write no file.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.add_typer(group)


@group.callback()
def serve(
    ctx: typer.Context,
    json_logs: Annotated[
        bool,
        typer.Option(
            "--json", help="Log as JSON lines (the default when output is not a terminal)."
        ),
    ] = False,
) -> None:
    """Serve the console, rows and changes of tables, waits and lag over HTTP, until stopped.

    It listens where serve.listen says, by default on 127.0.0.1:8484. A browser shows the console
    there (docs/console.md), GET /status is the same as one plain page. GET /changes/TABLE streams a
    table's rows and then its changes as server-sent events; GET /views/VIEW/wait waits until a view
    holds a change; GET /pipeline tells how everything is; operators may POST what the commands of
    this program do; GET /openapi.json describes all. Several servers can run side by side.

    On other addresses than loopback it needs a login and TLS (docs/serve.md). On SIGTERM or Ctrl-C
    each client is told where to go on. Needs the package's extra `serve`, which
    stack/bootstrap.sh installs, too.

    \b
    Examples:
      headwater serve
      headwater serve add-user alice --role operator --table '*'
      headwater serve add-token cache --table public.orders
    """
    if ctx.invoked_subcommand is not None:
        return
    refuse_missing()
    from cdc.logs import configure
    from headwater.api.server import serve as run
    from headwater.console.routes import console_routes

    config = captured(ctx)
    configure(json_logs or not sys.stderr.isatty())
    run(config, config_path(ctx).absolute(), console_routes)


@group.command(name="add-user")
def add_user(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: RoleOption = "viewer",
    tables: TablesOption = None,
    prints: PrintOption = False,
) -> None:
    """Add a user to the file serve.users, or replace one.

    Asks for the password, which has at least 12 characters; without a terminal it is the first line
    of standard input. A running server knows the user at once. With --print no configuration is
    read.

    \b
    Examples:
      headwater serve add-user alice --role operator --table '*'
      headwater serve add-user alice --print >> users.toml
    """
    refuse_missing()
    from headwater.api.access.passwords import SHORTEST_PASSWORD, hashed_password

    path = None if prints else _users(ctx)
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise UsageError(
            "no password was given",
            "run it on a terminal, or write the password as the first line of standard input: at "
            f"least {SHORTEST_PASSWORD} characters",
        )
    if len(password) < SHORTEST_PASSWORD:
        raise UsageError(
            f"the password is too short: it has {len(password)} characters",
            f"use at least {SHORTEST_PASSWORD} characters",
        )
    _write(path, "users", name, hashed_password(password), role, tables)
    if path is not None:
        err().print(f"{name} may log in", soft_wrap=True, markup=False)
        _warn_of_unknown(ctx, tables)


@group.command(name="add-token")
def add_token(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: RoleOption = "viewer",
    tables: TablesOption = None,
    prints: PrintOption = False,
) -> None:
    """Add a token for a program to the file serve.users, or replace one, and print it once.

    The program sends it as `Authorization: Bearer TOKEN`. The file has only its hash. With --print
    no configuration is read, and the token goes to standard error.

    \b
    Examples:
      headwater serve add-token cache --table public.orders > cache.token
      headwater serve add-token cache --print >> users.toml 2> cache.token
    """
    refuse_missing()
    from headwater.api.access.passwords import fresh_token, hashed_token

    token = fresh_token()
    _write(None if prints else _users(ctx), "tokens", name, hashed_token(token), role, tables)
    shown = err() if prints else out()
    shown.print(token, soft_wrap=True, markup=False, highlight=False)
    if not prints:
        _warn_of_unknown(ctx, tables)


def _warn_of_unknown(ctx: typer.Context, tables: list[str] | None) -> None:
    """Of tables that give nothing, because the source does not have them. The account is written
    all the same: they may be added later."""
    from cdc.errors import HeadwaterError
    from cdc.source.catalog import chosen_tables
    from cdc.source.postgres import connect
    from headwater.cli.serve.grants import unknown_grants

    if not set(tables or ()) - {"*"}:
        return
    source = configured(ctx).source
    try:
        with connect(source.dsn, application_name="headwater serve") as conn:
            captured = [one.label for one in chosen_tables(conn, source)[0]]
        lines = list(unknown_grants(tables or (), captured))
    except HeadwaterError as error:
        lines = [f"whether the source has the tables of --table is not known: {error.message}"]
    for line in lines:
        err().print(line, style="yellow", soft_wrap=True, markup=False)


def refuse_missing() -> None:
    """Raise ``UsageError`` without the packages of the extra."""
    from headwater.cli.serve.settings import INSTALL, NEEDED

    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"headwater serve needs {', '.join(missing)}, which is not installed",
            INSTALL,
        )


def _users(ctx: typer.Context) -> Path:
    users = configured(ctx).serve.users
    if not users:
        raise UsageError("serve.users is not set", 'set users = "users.toml" in [serve]')
    return Path(users)


def _write(
    path: Path | None, section: str, name: str, hashed: str, role: str, tables: list[str] | None
) -> None:
    """Into the file, or to standard output."""
    from headwater.api.access.principal import Role
    from headwater.api.access.users import refuse_name, with_account, write_account

    if role not in list(Role):
        raise UsageError(f"{role!r} is no role", "use viewer or operator")
    granted = tuple(tables or ())
    if path is not None:
        write_account(path, section, name, hashed, Role(role), granted)
    else:
        refuse_name(name)
        lines = with_account("", section, name, hashed, Role(role), granted)
        out().print(lines, soft_wrap=True, markup=False, highlight=False)
