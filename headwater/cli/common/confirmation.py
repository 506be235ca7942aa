"""Asking a person before something is deleted."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cdc.errors import UsageError

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def on_terminal() -> bool:
    """Whether a person reads what is asked, and can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, yes: bool) -> None:
    """Return if ``yes``, or if the person at the terminal says so; else the command ends with 1.

    Raises ``UsageError`` where nobody can be asked.
    """
    if yes:
        return
    if not on_terminal():
        raise UsageError(
            "not confirmed: nothing was changed", "add --yes to run it without confirmation"
        )
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
