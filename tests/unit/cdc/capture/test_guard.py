"""What is said of a slot that holds back WAL, and when it is too much."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from cdc.capture import guard
from cdc.capture.guard import Guard, WalLimitError, beyond, catching_up, danger
from cdc.capture.source_probe import Observation
from cdc.config import Capture, Config
from cdc.source.disk import free_bytes
from cdc.source.slot import BusySlotError

MB = 1 << 20
WELL = Observation(MB, MB, "reserved", None, None, None, "", None)


def test_a_slot_that_holds_back_little_is_well() -> None:
    assert danger(WELL, Capture()) is None
    assert beyond(WELL, Capture(wal_limit_mb=2)) is None


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (WELL._replace(retained=4097 * MB), "wal_warn_mb = 4096"),
        (WELL._replace(wal_status="unreserved"), "next checkpoint"),
        (WELL._replace(wal_status="lost"), "lost"),
        (WELL._replace(retained=81 * MB, safe_wal_size=19 * MB), "81% of max_slot_wal_keep_size"),
    ],
)
def test_a_slot_in_danger_is_named_with_its_reason(seen: Observation, said: str) -> None:
    assert said in (danger(seen, Capture()) or "")


def test_the_limit_counts_what_is_kept_on_the_disk_not_what_is_confirmed() -> None:
    seen = WELL._replace(retained=11 * MB, unconfirmed=0)
    assert "wal_limit_mb = 10" in (beyond(seen, Capture(wal_limit_mb=10)) or "")


def test_a_full_disk_is_the_slot_s_doing_only_if_dropping_it_would_help() -> None:
    full = WELL._replace(disk_free=100 * MB)
    assert beyond(full, Capture()) is None
    holds = full._replace(retained=1024 * MB)
    assert "100 MB left" in (beyond(holds, Capture()) or "")
    assert beyond(holds, Capture(disk_free_mb=0)) is None


def test_a_disk_is_looked_at_only_if_the_folder_is_that_server_s(tmp_path: Path) -> None:
    (tmp_path / "pg_wal").mkdir()
    assert free_bytes(None, os.getpid()) is None
    assert free_bytes(str(tmp_path), os.getpid()) is None
    (tmp_path / "postmaster.pid").write_text(f"{os.getppid()}\n/data\n")
    assert (free_bytes(str(tmp_path), os.getpid()) or 0) > 0
    (tmp_path / "postmaster.pid").write_text("1234567\n/data\n")
    assert free_bytes(str(tmp_path), os.getpid()) is None


def test_a_capture_that_works_off_its_backlog_is_left_to_it() -> None:
    seen = WELL._replace(retained=1000 * MB, unconfirmed=900 * MB)
    assert catching_up(None, seen)
    assert catching_up(seen._replace(retained=1100 * MB), seen)
    assert catching_up(seen._replace(unconfirmed=1000 * MB), seen)
    assert not catching_up(seen, seen)
    assert not catching_up(seen._replace(retained=900 * MB), seen)
    assert not catching_up(seen._replace(unconfirmed=901 * MB), seen)


def test_a_slot_that_was_let_go_after_it_was_found_busy_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = Config.model_validate(
        {
            "source": {"name": "shop", "dsn": "host=none", "tables": ["public.*"]},
            "kafka": {"bootstrap_servers": "none:1"},
            "capture": {"wal_limit_action": "drop"},
        }
    )
    busy = [BusySlotError("in use")]

    def drop(_conn: object, _name: str) -> bool:
        if busy:
            raise busy.pop()
        return True

    monkeypatch.setattr(guard, "connect", lambda _dsn: nullcontext())
    monkeypatch.setattr(guard, "drop_slot", drop)
    monkeypatch.setattr(guard, "slot_state", lambda _conn, _name: None)
    ended = Guard(config, None).carried_out(WalLimitError("too much"))
    assert ended.message == "too much; it was dropped to protect the source's disk"
