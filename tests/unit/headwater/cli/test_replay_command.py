"""What ``headwater replay`` refuses before it asks any server."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from headwater.cli.app import app

CONFIG = """
[source]
name = "s"
dsn = "dbname=unused"
tables = ["public.t"]
[kafka]
bootstrap_servers = "127.0.0.1:1"
[stores.lake]
kind = "delta"
path = "lake"
[views.v]
store = "lake"
key = ["id"]
sql = "select * from t"
"""


def test_a_view_over_mirrors_needs_no_archive(tmp_path: Path) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text(CONFIG, encoding="utf-8")
    asked = ["--config", str(file), "replay", "v", "--from", "beginning", "--archive", "w"]
    done = CliRunner().invoke(app, asked)
    assert "view v is kept over mirrors" in str(done.exception)
    assert "Leave out --archive" in str(done.exception)
