"""How verbs print: results on stdout, everything said to a person on stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from cdc.errors import two_lines

if TYPE_CHECKING:
    from rich.console import Console


_PIPE_COLUMNS = 160  # a pipe has no width of its own; rich would cut tables at 80


def out() -> Console:
    """The console for results."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_COLUMNS)


def err() -> Console:
    """The console for progress, notices and errors."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def notice(said: str) -> None:
    """What a person should know while a command goes on, never wrapped."""
    err().print(said, style="yellow", soft_wrap=True, markup=False)


def print_json(document: Any) -> None:
    """One JSON document on stdout, for ``--json``. Never coloured, never wrapped."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_error(message: str, hint: str = "") -> None:
    """``error: ...``, one line a fault, red on a terminal, never wrapped; the hint is a line below.

    Indented lines belong to the fault above them: a hint, or what a server's log said.
    """
    from rich.text import Text

    console = err()
    for line in two_lines(message, hint).splitlines():
        quoted = line.startswith(" ")
        text = Text(line, style="dim") if quoted else Text(f"error: {line}", style="red")
        console.print(text, soft_wrap=True)
