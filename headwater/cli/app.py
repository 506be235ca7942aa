"""``headwater``: one command, a file for each verb.

A verb is a module ``headwater.cli.<verb>`` with ``register(app)``. It imports heavy clients inside
its functions only, so that ``headwater --help`` answers at once.

An expected fault (``HeadwaterError``) is a line on stderr, with its hint below, and an exit code.
Anything else is a bug and shows as one, with its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from cdc.errors import HeadwaterError
from headwater.cli.common.context import DEFAULT_CONFIG, CliContext
from headwater.cli.common.output import print_error

# In the order --help shows them.
VERBS: tuple[str, ...] = (
    "up",
    "down",
    "status",
    "check",
    "init",
    "capture",
    "snapshot",
    "table",
    "topics",
    "apply",
    "view",
    "state",
    "wait",
    "serve",
    "replay",
    "health",
    "lag",
    "explain",
    "trace",
    "dead-letters",
    "verify",
    "uninstall",
    "demo",
    "bench",
)

_INTRODUCTION = """
Capture changes of a PostgreSQL database to Kafka, and maintain views of them.

Every committed change is published once, in commit order. Views in search indexes, caches,
databases and Delta tables are kept equal to their SQL on the source.

\b
Try it on this machine, without Docker:
  headwater up                    start PostgreSQL, Kafka, OpenSearch and Redis
  headwater demo                  run a story on real data, from snapshot to verify

\b
Set up your own servers:
  headwater check                 list what has to change before capture can run
  headwater init                  create publication, slot and topics; take a snapshot
  headwater capture               publish changes to Kafka, until stopped
  headwater apply                 apply changes to the views, until stopped
  headwater serve                 stream tables and their changes over HTTP, until stopped

\b
Operate:
  headwater health                exit with 0 if capture is alive, for a probe
  headwater lag                   show how far behind capture and views are
  headwater explain HW001         explain an alarm, and how to recover
  headwater trace TABLE KEY       show where one row's changes are, in Kafka and in views
  headwater wait VIEW             wait until a view holds what is committed now
  headwater verify VIEW           compare a view with the source, row by row
  headwater dead-letters list     list records and events that could not be applied

\b
Change:
  headwater table add TABLE       start to capture a table, while capture runs
  headwater table remove TABLE    stop capturing a table
  headwater topics add-partitions TABLE N
                                  give a table's topic more partitions
  headwater snapshot start TABLE  read a table at one LSN, while capture runs
  headwater view rebuild VIEW     build a view again beside the live one, and swap
  headwater replay VIEW --from P  apply a view's changes again from an earlier position
  headwater uninstall             remove slot, publication, schema and topics

Exit codes: 0 success, 1 error, 2 wrong usage or configuration, 3 timeout of `wait`.
"""

app = typer.Typer(
    name="headwater",
    help=_INTRODUCTION,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {version('headwater')}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    config: Annotated[
        Path, typer.Option("--config", metavar="FILE", help="Configuration file.")
    ] = DEFAULT_CONFIG,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    ctx.obj = CliContext(config_path=config)


options.__doc__ = _INTRODUCTION
for _verb in VERBS:
    import_module(f"headwater.cli.{_verb.replace('-', '_')}").register(app)


def misplaced(arguments: Sequence[str]) -> str:
    """What to write where --config stands behind the verb, which has no such option; "" if it does
    not."""
    verb = next((at for at, one in enumerate(arguments) if one in VERBS), len(arguments))
    behind = [one for one in arguments[verb:] if one.partition("=")[0] == "--config"]
    if not behind or "--" in arguments:
        return ""
    return f"--config stands before the verb: headwater --config FILE {arguments[verb]}"


def main() -> None:
    """Run the command line; the process's exit code says how it went."""
    if said := misplaced(sys.argv[1:]):
        print_error(said)
        sys.exit(2)
    try:
        app(prog_name="headwater")
    except HeadwaterError as error:
        print_error(error.message, error.hint)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
