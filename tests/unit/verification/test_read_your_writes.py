"""What is said of views that are late, and what is asked of a connection."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import headwater
from cdc.errors import RetryableError, SinkError, UsageError, ViewError
from headwater import view_client
from headwater.cli.wait import line
from headwater.lag.wait_document import document, lacking
from headwater.view_client import Reached, current_lsn, parsed
from jobs.generations.last_error import forget, noted
from jobs.generations.view_locks import turn
from verification.late_view_errors import Standing, idle, is_applied, refuse_stopped, said, way_out
from verification.view_positions import Behind, Lacking, NotReachedError, StoppedError


def test_what_a_view_lacks_is_told_in_one_line() -> None:
    one = Standing("v", 0x1_0000_0010, 1, 0, None)
    assert said(one, 0x1_0000_0020) == (
        "view v holds what was committed below 1/10 and lacks 1 record of what was committed"
        " below 1/20"
    )
    assert said(one._replace(below=None, lacks=7_000), 5) == (
        "view v lacks 7,000 records of what was committed below 0/5"
    )
    assert said(one._replace(below=None, lacks=0), 5) == "view v was not built yet"


@pytest.mark.parametrize(
    ("applied", "hint"),
    [
        (None, "check that `headwater apply` is running for v"),
        (False, "run `headwater apply`: no process applies v"),
        (True, "wait longer: it is being applied"),
    ],
)
def test_the_way_out_depends_on_who_applies_it(applied: bool | None, hint: str) -> None:
    assert way_out([Standing("v", 1, 1, 0, applied)]).startswith(hint)


def test_a_view_that_a_fault_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    lacking: Lacking = {"v": [Behind("s.public.t", 0, 3, 4)]}

    def end(error: Exception, *, asked: bool = False) -> None:
        held = turn(tmp_path, "stream", 0)
        with suppress(SinkError, RetryableError), held, noted(tmp_path, "v", unless=lambda: asked):
            assert is_applied(tmp_path)
            refuse_stopped("v", tmp_path, lacking)
            raise error

    refused = SinkError("Redis at h:1 refused the login", "Check user and password")
    end(refused)
    forget([tmp_path, tmp_path / "new"])  # as it is begun again
    refuse_stopped("v", tmp_path, lacking)
    end(refused)
    with pytest.raises(StoppedError, match=r"stopped at 2\S+Z, no process applies it: ") as late:
        refuse_stopped("v", tmp_path, lacking)
    assert str(late.value).endswith(
        "view v: Redis at h:1 refused the login. Check user and password."
    )
    assert list(late.value.lacking) == ["v"]
    with turn(tmp_path, "stream", 0):  # a repair, say
        refuse_stopped("v", tmp_path, lacking)
    for error, asked in ((refused, True), (RetryableError("Redis does not answer"), False)):
        end(error, asked=asked)
        refuse_stopped("v", tmp_path, lacking)


def test_a_note_that_cannot_be_written_hides_no_fault(tmp_path: Path) -> None:
    (tmp_path / "generations.json").write_text("{}")
    with pytest.raises(SinkError, match="refused"), noted(tmp_path, "v", unless=lambda: False):
        raise SinkError("refused")


def test_who_waits_is_told_that_nobody_applies_it(tmp_path: Path) -> None:
    assert is_applied(tmp_path / "elsewhere") is None
    stands = "; waiting for `headwater apply`"
    assert list(idle({"v": None})) == [f"view v has not been applied on this machine{stands}"]
    assert list(idle({"v": is_applied(tmp_path)})) == [f"view v is not being applied{stands}"]
    assert list(idle({"v": True})) == []
    assert list(idle({"a": None, "b": False, "c": True, "d": None, "e": False})) == [
        f"views b, e are not being applied{stands}",
        f"views a, d have not been applied on this machine{stands}",
    ]


def test_lsns_are_numbers_or_as_postgresql_writes_them() -> None:
    assert parsed("0/16B3748") == parsed(0x16B3748) == parsed(" 0/16b3748\n")
    for text in ("16B3748", "", "0/x", "0/123456789"):
        with pytest.raises(UsageError, match="is not an LSN"):
            parsed(text)


def test_what_is_reached_is_shown() -> None:
    reached = Reached(0x20, 0.1234, {"b": 2}, {"a": 0.05, "b": 0.1234})
    assert line("a", reached) == "a: holds what was committed below 0/20 (0.05 s)"
    assert line("b", reached) == "b: holds what was committed below 0/20 (0.12 s)"
    assert document(["a", "b", "a"], reached) == {
        "reached": True,
        "lsn": "0/20",
        "waited_s": 0.123,
        "views": [
            {"view": "a", "reached": True, "waited_s": 0.05, "parked_keys": 0},
            {"view": "b", "reached": True, "waited_s": 0.123, "parked_keys": 2},
        ],
    }
    assert lacking("a", None, True) == {"view": "a", "reached": True}
    assert lacking("a", Standing("a", 0x10, 3, 1, None), True)["lsn"] == "0/10"


def test_a_view_that_lacks_only_what_came_later_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Capture tells of its position from time to time: it may be behind what is waited for."""
    (tmp_path / "headwater.toml").write_text(
        '[source]\nname = "s"\ndsn = "postgresql://127.0.0.1/s"\ntables = ["public.t"]\n'
        '[kafka]\nbootstrap_servers = "127.0.0.1:9"\n'
        '[stores.cache]\nkind = "redis"\nurl = "redis://127.0.0.1:9/0"\n'
        '[views.v]\nstore = "cache"\nkey = ["id"]\nsql = "select id from t"\n'
    )
    behind = {"v": [Behind("s.public.t", 0, 3, 5)]}
    ends = {"s.public.t": {0: 5}}

    def over(*_: object) -> None:
        raise NotReachedError("the time is over", "", behind, ends)

    monkeypatch.setattr(view_client, "wait_until_applied", over)
    with view_client.Views(tmp_path / "headwater.toml") as views:
        monkeypatch.setattr(views, "_met", True)
        monkeypatch.setattr(views, "parked", lambda _: 0)
        monkeypatch.setattr(views, "standings", lambda _: [Standing("v", 0x20, 2, 0, True)])
        assert views.wait("v", lsn=0x20).lsn == 0x20
        with pytest.raises(NotReachedError, match="view v holds what was committed below 0/20"):
            views.wait("v", lsn=0x21)
        ends.clear()
        with pytest.raises(ViewError, match="capture does not publish"):
            views.wait("v", lsn=0x20)


class Plain:
    """A connection of the DB-API that says nothing of transactions."""

    def __init__(self, row: Any) -> None:
        self.row, self.asked = row, ""

    def cursor(self) -> Plain:
        return self

    def execute(self, query: str) -> None:
        self.asked = query

    def fetchone(self) -> Any:
        return self.row

    def close(self) -> None:
        """Of the cursor."""

    def rollback(self) -> None:
        raise AssertionError("nobody knows of a transaction")


@pytest.mark.parametrize("row", [("0/20",), {"lsn": "0/20"}])
def test_any_connection_is_asked(row: Any) -> None:
    conn = Plain(row)
    assert current_lsn(conn) == "0/20"
    assert "pg_current_wal_insert_lsn" in conn.asked


def test_applications_find_it_under_one_name() -> None:
    assert set(headwater.__all__) <= set(dir(headwater))
    with pytest.raises(headwater.UsageError, match="no such file"):
        headwater.Views("/nowhere/headwater.toml")
