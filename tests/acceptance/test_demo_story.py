"""The whole story on few flights: real servers, live traffic, two kill -9, every view verified."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stack import servers

SEED = 2013


@pytest.mark.timeout(1560)
def test_every_view_equals_the_source_after_a_day_with_two_kills(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    command = [sys.executable, "-c", "from headwater.cli.app import main; main()", "demo"]
    options = ["--home", str(home), "--flights", "5000", "--seed", str(SEED), "--json"]
    try:
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=1500, check=False
        )
    finally:
        left = servers.purge(home / "servers")
    print(f"seed {SEED}\n{done.stderr}")
    assert done.returncode == 0, done.stderr
    assert left == [], "the demo stops its servers itself"
    result = json.loads(done.stdout)
    check_result(result)


def check_result(result: dict[str, Any]) -> None:
    views = {view["view"]: view for view in result["views"]}
    assert result["ok"]
    assert set(views) == {"flights", "flight_search", "aircraft"}
    for view in views.values():
        assert view["differences"] == 0
        assert view["rows_view"] == view["rows_source"] > 0
        assert view["fresh_overall_ms"]["samples"] > 0
    # 5,000 loaded, 232 inserted: one in four of that day's 928, of which some are cancelled.
    assert 5_100 < views["flights"]["rows_source"] < 5_232
    assert 0 < views["flight_search"]["rows_source"] < views["flights"]["rows_source"]
    assert views["aircraft"]["rows_source"] == 3_322
