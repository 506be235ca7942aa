"""What the demo takes from the log of `headwater apply`: the work at hand, views that stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdc.errors import FatalError
from demo.job_log import JobLog


def _line(event: str, **more: object) -> bytes:
    return json.dumps({"event": event, "view": "flights", **more}).encode() + b"\n"


def test_a_job_that_has_not_logged_yet_says_nothing(tmp_path: Path) -> None:
    JobLog(tmp_path / "log").follow()


def test_a_view_that_stopped_is_told_with_its_error_once_the_line_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    followed = JobLog(log)
    log.write_bytes(b"WARNING: not JSON\n" + _line("view_started") + _line("rows_applied"))
    followed.follow()
    line = _line("view_stopped", error="view flights: no memory")
    with log.open("ab") as more:
        more.write(line[:20])
        more.flush()
        followed.follow()
        more.write(line[20:])
    with pytest.raises(FatalError, match="flights stopped: view flights: no memory"):
        followed.follow()


def test_a_line_that_a_kill_cut_off_says_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b'{"event": "view_stopped", "vi' + _line("view_started"))
    JobLog(log).follow()


def test_what_is_done_for_views_is_told_in_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    followed = JobLog(log)
    told = []
    for line in (
        _line("view_started"),
        _line("mirror_filling", table="public.flights", rows=120_000),
        _line("view_build", step="loading into search"),
        _line("view_loading", rows=40_000),
        _line("rows_applied"),
    ):
        with log.open("ab") as more:
            more.write(line)
        followed.follow()
        told.append(followed.doing)
    assert told == [
        "",
        "reading public.flights into the state database: 120,000 rows",
        "flights: loading into search",
        *["flights: 40,000 rows written"] * 2,
    ]
