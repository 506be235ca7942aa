"""``python -m headwater.cli.common.command_reference``, which is part of ``make docs``: writes
``docs/commands.md`` from the command line itself. A test compares the page with it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import typer
from typer.core import TyperGroup

from cdc.errors import FatalError, HeadwaterError, RetryableError, UsageError
from headwater.cli.app import VERBS, app

PAGE: Final = Path(__file__).parents[3] / "docs/commands.md"
_HEAD: Final = """\
# Commands

Every command with its arguments and options, as `headwater COMMAND --help` shows them.
`--config FILE` stands before the command: `headwater --config shop.toml check`.

"""
_TAIL: Final = """\
## Exit codes and errors

| code | meaning |
|---|---|
| 0 | success |
| 1 | an error: the message says what, where and what to do |
| 2 | wrong usage or configuration |
| 3 | `wait` timed out |
| 130 | interrupted with Ctrl-C |

An error is one line on stderr with a hint below it. Applications that import `headwater` see it as
an exception. All of these are a `HeadwaterError`:

| kind | meaning |
|---|---|
"""
_BLOCKED: Final = re.compile("\x08\n?")
"""The mark of a paragraph whose lines stay as they are."""
_TYPE: Final = re.compile(r" <[^>]*>$")
"""What kind of value an argument has, where its name says it."""


def page() -> str:
    """The whole page, as Markdown."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    parts = [_HEAD]
    for verb in VERBS:
        parts += _section(root.commands[verb], f"headwater {verb}", "##")
    return "".join(parts) + _TAIL + "".join(map(_kind, _kinds())) + "\n"


def _kinds() -> Iterator[type[HeadwaterError]]:
    """The kinds of errors that somebody sees, each before those that it holds; not what a module
    that happens to be imported makes of them."""
    for kind in (UsageError, FatalError, RetryableError):
        yield kind
        yield from (one for one in kind.__subclasses__() if one.__module__ == kind.__module__)


def _kind(kind: type[HeadwaterError]) -> str:
    said = " ".join((kind.__doc__ or "").replace("``", "`").split())
    return f"| `{kind.__name__}` | {said} |\n"


def _section(command: Any, name: str, level: str) -> Iterator[str]:
    prose, blocks = _said(command)
    yield f"{level} {name}\n\n{prose}"
    with typer.Context(command, info_name=name) as ctx:
        yield f"```\n{command.get_usage(ctx).removeprefix('Usage: ')}\n```\n\n"
        rows = [row for one in command.get_params(ctx) if (row := _parameter(one, ctx))]
    if rows:
        yield "| argument or option | meaning |\n|---|---|\n" + "".join(rows) + "\n"
    yield blocks
    if isinstance(command, TyperGroup):
        for verb, inner in command.commands.items():
            yield from _section(inner, f"{name} {verb}", "###")


def _said(command: Any) -> tuple[str, str]:
    """What its help says, and what it lays out by hand: examples."""
    prose, blocks = "", ""
    for text in inspect.cleandoc(command.help or "").split("\n\n"):
        if _BLOCKED.match(text):
            lines = _BLOCKED.sub("", text).splitlines()
            blocks += f"{lines[0]}\n\n```\n{dedent(chr(10).join(lines[1:]))}\n```\n\n"
        else:
            prose += f"{_prose(text)}\n\n"
    return prose, blocks


def _parameter(parameter: Any, ctx: Any) -> str:
    """One row; ``--help`` has none."""
    if "--help" in parameter.opts:
        return ""
    names, said = parameter.get_help_record(ctx)
    return f"| `{_TYPE.sub('', names)}` | {_prose(said)} |\n"


def _prose(text: str) -> str:
    """In one line. Outside of code Markdown takes some signs for markup."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [re.sub(r"([|<*])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
