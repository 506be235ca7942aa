"""What is deleted only when somebody has said so."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from cdc.errors import UsageError
from headwater.cli.common import confirmation
from headwater.cli.common.confirmation import confirm


def test_off_a_terminal_nothing_happens_without_yes() -> None:
    with pytest.raises(UsageError, match=r"nothing was changed\. Add --yes"):
        confirm("Delete it?", yes=False)
    confirm("Delete it?", yes=True)


@pytest.mark.parametrize(
    ("answer", "code", "done"), [("y\n", 0, True), ("n\n", 1, False), ("\n", 1, False)]
)
def test_on_a_terminal_a_person_is_asked(
    monkeypatch: pytest.MonkeyPatch, answer: str, code: int, *, done: bool
) -> None:
    monkeypatch.setattr(confirmation, "on_terminal", lambda: True)
    app, deleted = typer.Typer(), list[bool]()

    @app.command()
    def delete() -> None:
        confirm("Delete it?", yes=False)
        deleted.append(True)

    result = CliRunner().invoke(app, input=answer)
    assert (result.exit_code, bool(deleted)) == (code, done)
    assert "Delete it? [y/N]" in result.output
