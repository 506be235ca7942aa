"""`headwater view drop` of several views: what was dropped is told, and each fault, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
import typer

from cdc.errors import UsageError
from headwater.cli.view import build
from headwater.cli.view.build import drop_kept
from jobs.state.views.commands import Answer, Command

BUSY = UsageError("view b is being built", "wait until it is live")


def answered(commands: Sequence[Command]) -> list[Answer]:
    faults = {"b": BUSY}
    return [
        Answer(True, True, (), 0, 0, None, faults[one.view])
        if one.view in faults
        else Answer(True, True, (), 0, 0, {"dropped": [1, 2]}, None)
        for one in commands
    ]


def test_views_of_one_kind_are_dropped_by_one_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[Command]] = []

    def carried_out(_reload: object, commands: Sequence[Command]) -> list[Answer]:
        asked.append(list(commands))
        return answered(commands)

    monkeypatch.setattr(build, "carried_out", carried_out)
    with pytest.raises(typer.Exit) as ended:
        drop_kept(cast(Any, None), ["a", "b", "c"], None)
    assert ended.value.exit_code == BUSY.exit_code
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        f"{view}: generation {number} dropped" for view in "ac" for number in (1, 2)
    ]
    assert told.err.count("view b is being built") == 1
    assert [[(one.kind, one.view) for one in commands] for commands in asked] == [
        [("drop", "a"), ("drop", "b"), ("drop", "c")]
    ]

    with pytest.raises(UsageError, match="view b is being built"):
        drop_kept(cast(Any, None), ["b"], 2)
    assert asked[1][0].arguments == {"generation": 2}
    drop_kept(cast(Any, None), [], None)
    assert len(asked) == 2
