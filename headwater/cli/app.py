"""``headwater``: one command, a file for each verb.

A verb is a module ``headwater.cli.<verb>`` with ``register(app)``. It imports heavy clients inside
its functions only, so that ``headwater --help`` answers at once.

An expected fault (``HeadwaterError``) is one line on stderr and its exit code. Anything else is a
bug and shows as one, with its traceback.
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
    "apply",
    "view",
    "state",
    "wait",
    "replay",
    "health",
    "lag",
    "dead-letters",
    "verify",
    "uninstall",
    "demo",
    "bench",
)

_INTRODUCTION = """
Change data capture for PostgreSQL: one log, many views.

Every committed change goes to Kafka once, in commit order; views in search indexes, caches
and Delta tables stay equal to the source.

\b
Try it on this machine, without Docker:
  headwater up                    start PostgreSQL, Kafka, OpenSearch and Redis
  headwater demo                  a story on real data, from snapshot to verify

\b
On your own servers:
  headwater check                 what has to change before capture can run
  headwater init                  publication, replication slot and topics
  headwater capture               changes to Kafka, until stopped
  headwater snapshot start TABLE  a table's rows at one LSN, while capture runs
  headwater table add TABLE       one more table, its rows and its changes, without a stop
  headwater apply                 Kafka to the views, until stopped
  headwater view rebuild VIEW     a view anew, beside what is read
  headwater wait VIEW             until it holds what is committed by now
  headwater replay VIEW --from P  its changes again, from an earlier place
  headwater health                whether capture is alive, for a probe
  headwater lag                   how far behind each view is
  headwater dead-letters list     records too large for Kafka, events views could not apply
  headwater verify VIEW           source and view, row by row
  headwater table remove TABLE    one table less
  headwater uninstall             slot, publication, schema and topics, gone again

Exit codes: 0 fine, 1 fault, 2 wrong usage or configuration; 3 of wait: the time was over.
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
        Path, typer.Option("--config", metavar="FILE", help="The configuration to use.")
    ] = DEFAULT_CONFIG,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
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
        print_error(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
