"""What ``headwater status`` lists: servers of its folder, parts of its configuration, or both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import headwater.deployment
import stack.servers
import stack.state
from headwater.cli.app import app
from headwater.deployment import Part
from stack.servers import Status
from tests.unit.headwater.cli.test_replay_command import CONFIG

SERVER = Status("kafka", "running", 7, "127.0.0.1:9092", "2026-11-26T10:00:00", Path("kafka.log"))
WELL = Part("capture", "fresh", True, "0.4 s behind the source")
STALLED = Part("view v", "stalled", False, "74.2 s behind the source")


def status(
    folder: Path, patched: pytest.MonkeyPatch, started: bool, parts: list[Part] | None
) -> Result:
    file = folder / "headwater.toml"
    if parts is not None:
        file.write_text(CONFIG, encoding="utf-8")
        patched.setattr(headwater.deployment, "parts_of", lambda _: iter(parts))
    patched.setattr(stack.state, "was_started", lambda _: started)
    patched.setattr(stack.servers, "status", lambda _: [SERVER])
    return CliRunner().invoke(app, ["--config", str(file), "status", "--json"])


@pytest.mark.parametrize(
    ("started", "parts", "names", "code"),
    [
        (True, None, ["kafka"], 0),
        (True, [WELL], ["kafka", "capture"], 0),
        (True, [WELL, STALLED], ["kafka", "capture", "view v"], 1),
        (False, [WELL], ["capture"], 0),
    ],
)
def test_servers_are_listed_where_they_were_started_and_parts_where_some_are_declared(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: bool,
    parts: list[Part] | None,
    names: list[str],
    code: int,
) -> None:
    done = status(tmp_path, monkeypatch, started, parts)
    assert [one["name"] for one in json.loads(done.stdout)] == names
    assert done.exit_code == code
