"""The demo notices a view that stopped, while the job goes on with the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdc.errors import FatalError
from demo.stopped import StoppedViews


def _line(event: str, **more: str) -> bytes:
    return json.dumps({"event": event, "view": "flights", **more}).encode() + b"\n"


def test_a_job_that_has_not_logged_yet_says_nothing(tmp_path: Path) -> None:
    StoppedViews(tmp_path / "log").check()


def test_a_view_that_stopped_is_told_with_its_error_once_the_line_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stopped = StoppedViews(log)
    log.write_bytes(b"WARNING: not JSON\n" + _line("view_started") + _line("rows_applied"))
    stopped.check()
    line = _line("view_stopped", error="view flights: no memory")
    with log.open("ab") as more:
        more.write(line[:20])
        more.flush()
        stopped.check()
        more.write(line[20:])
    with pytest.raises(FatalError, match="flights stopped: view flights: no memory"):
        stopped.check()


def test_a_line_that_a_kill_cut_off_says_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b'{"event": "view_stopped", "vi' + _line("view_started"))
    StoppedViews(log).check()
