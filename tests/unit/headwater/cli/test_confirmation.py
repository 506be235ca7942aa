"""What is deleted only when somebody has said so."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from cdc.errors import UsageError
from headwater.cli.app import app
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
    asking, deleted = typer.Typer(), list[bool]()

    @asking.command()
    def delete() -> None:
        confirm("Delete it?", yes=False)
        deleted.append(True)

    result = CliRunner().invoke(asking, input=answer)
    assert (result.exit_code, bool(deleted)) == (code, done)
    assert "Delete it? [y/N]" in result.output


def test_a_view_is_dropped_only_when_somebody_has_said_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "headwater.toml"
    config.write_text(
        '[source]\nname = "shop"\ndsn = "postgresql://127.0.0.1/none"\ntables = ["public.t"]\n'
        '[kafka]\nbootstrap_servers = "127.0.0.1:9"\n'
        f'[apply]\nstate = "{tmp_path / "state"}"\n'
        f'[stores.lake]\nkind = "delta"\npath = "{tmp_path / "lake"}"\n'
        '[views.v]\nstore = "lake"\nkey = ["id"]\nsql = "select id from t"\n'
        '[views.w]\nstore = "lake"\nkey = ["id"]\nsql = "select id from t"\n'
    )
    dropped = list[str]()
    monkeypatch.setattr("headwater.cli.view.request.kept_by_state", lambda *_: False)
    # It would log to where the runner reads, which is closed behind it.
    monkeypatch.setattr("cdc.logs.configure", lambda *_, **__: None)

    def drop_view(_config: object, view: str, *_: object) -> list[int]:
        dropped.append(view)
        return [1]

    monkeypatch.setattr("bootstrap.process.drop_view", drop_view)

    def drop(*more: str, answer: str = "") -> Result:
        return CliRunner().invoke(
            app, ["--config", str(config), "view", "drop", "v", *more], answer
        )

    assert isinstance(drop().exception, UsageError)
    monkeypatch.setattr(confirmation, "on_terminal", lambda: True)
    refused = drop(answer="n\n")
    assert (refused.exit_code, dropped) == (1, [])
    assert "Delete all rows of view v from lake? [y/N]" in refused.output
    assert "generation 1 dropped" in drop(answer="y\n").output
    assert "generation 1 dropped" in drop("--yes").output
    assert dropped == ["v", "v"]

    both = drop("w", "v", answer="y\n")
    assert "Delete all rows of views v, w from lake? [y/N]" in both.output
    assert "v: generation 1 dropped\nw: generation 1 dropped\n" in both.output
    assert dropped[2:] == ["v", "w"]
    one_of_two = drop("w", "--generation", "1", "--yes")
    assert "--generation is of one view" in str(one_of_two.exception)
    assert dropped[4:] == []
