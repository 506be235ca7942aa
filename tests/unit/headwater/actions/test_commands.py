"""Actions as command lines: the command line takes them as they are meant, whatever texts say."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from headwater.actions import commands
from headwater.actions.commands import Command
from headwater.cli.app import app

ODD = "--config=/etc/passwd"
SECRET = "id=secret-value"


def parsed(command: Command) -> dict[str, Any]:
    """What the command line would call the verb with."""
    group: Any = typer.main.get_command(app)
    context, rest = None, list(command.arguments)
    while True:
        name, *rest = rest
        group = group.commands[name]
        if not hasattr(group, "commands"):
            break
    context = group.make_context(name, rest)
    assert isinstance(context.params, dict)
    return context.params


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (commands.rebuild("v"), {"views": ["v"], "hold": False, "as_json": True}),
        (
            commands.rebuild("v", hold=True, new_history=True, refill=True, despite_forecast=True),
            {"hold": True, "new_history": True, "refill": True, "despite_forecast": True},
        ),
        (commands.rebuild(ODD), {"views": [ODD]}),
        (commands.rollback("v"), {"view": "v", "to": None}),
        (commands.rollback(ODD, to=3), {"view": ODD, "to": 3}),
        (commands.replay("v", place=ODD), {"view": "v", "from_": ODD, "archive": ""}),
        (commands.replay("v", place="beginning", archive="-x"), {"archive": "-x"}),
        (commands.verify("v"), {"views": ["v"], "limit": 0, "repair": False, "timeout": 60.0}),
        (commands.verify("v", repair=True, timeout_s=1.5), {"repair": True, "timeout": 1.5}),
        (commands.diff(ODD, timeout_s=5), {"view": ODD, "keys": 0, "timeout": 5.0}),
        (commands.start_snapshot([ODD, "-t"], []), {"tables": [ODD, "-t"], "where": ""}),
        (
            commands.start_snapshot(
                [], [ODD], where="--x", key_range="-1:5", workers=2, rate="5 MB/s",
                despite_forecast=True,
            ),
            {"views": [ODD], "where": "--x", "key_range": "-1:5", "workers": 2, "rate": "5 MB/s",
             "despite_forecast": True},
        ),
        (commands.resume_snapshot(3), {"snapshot_id": 3, "despite_forecast": False}),
        (commands.pause_snapshot(3), {"snapshot_id": 3}),
        (commands.cancel_snapshot(3), {"snapshot_id": 3}),
        (commands.retry_dead_letters(ODD, None), {"view": ODD, "key": ()}),
        (commands.retry_dead_letters("v", ["--all", SECRET]), {"key": ["--all", SECRET]}),
        (
            commands.discard_dead_letters("v", None, "-"),
            {"view": "v", "everything": True, "yes": True},
        ),
        (
            commands.discard_dead_letters("v", ["--all"], "-"),
            {"key": ["--all"], "everything": False, "yes": False},
        ),
    ],
)  # fmt: skip
def test_texts_are_values_and_never_options(command: Command, expected: dict[str, Any]) -> None:
    found = parsed(command)
    several = {name: tuple(one) for name, one in found.items() if isinstance(one, list)}
    found |= several
    wanted = {name: tuple(v) if isinstance(v, list) else v for name, v in expected.items()}
    assert {name: found[name] for name in wanted} == wanted


def test_the_audit_log_gets_no_value_of_a_row() -> None:
    for command in (
        commands.retry_dead_letters("v", [SECRET]),
        commands.discard_dead_letters("v", [SECRET], "old"),
        commands.start_snapshot(["t"], [], where=SECRET),
        commands.start_snapshot(["t"], [], key_range=SECRET),
    ):
        assert SECRET not in json.dumps(dict(command.recorded))
        assert command.quotes
    assert commands.discard_dead_letters("v", None, "old").recorded["reason"] == "old"


def test_a_job_shows_no_value_of_a_row() -> None:
    settled = {"view": "v", "events": 1, "keys": 1, "left": [{"key": SECRET, "cause": SECRET}]}
    assert commands.retry_dead_letters("v", None).shown(settled)["left"] == 1
    report = {"equal": False, "different": 2, "differences": [{"key": SECRET}]}
    assert commands.verify("v").shown(report) == {"equal": False, "different": 2}
    standing = {"id": 3, "options": {"where": SECRET}}
    assert commands.start_snapshot(["t"], []).shown(standing) == {"id": 3}
