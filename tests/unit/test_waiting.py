"""What is said of views that are late, and what is asked of a connection."""

from __future__ import annotations

from typing import Any

import pytest

import headwater
from cdc.cli.wait import document, lacking, line
from cdc.errors import UsageError
from verification.waiting import Reached, Standing, current_lsn, parsed, said, way_out


def test_what_a_view_lacks_is_told_in_one_line() -> None:
    one = Standing("v", 0x1_0000_0010, 1, 0, None)
    assert said(one, 0x1_0000_0020) == (
        "view v holds what was committed below 1/10, not yet all below 1/20: it lacks 1 record"
    )
    assert "nobody can say how much it holds" in said(one._replace(below=None, lacks=7), 5)
    assert said(one._replace(lacks=7_000), 5).endswith("it lacks 7,000 records")


@pytest.mark.parametrize(
    ("applied", "hint"),
    [
        (None, "is `headwater apply v` running?"),
        (False, "nobody applies it: run `headwater apply v`"),
        (True, "it is being applied: give it longer"),
    ],
)
def test_the_way_out_depends_on_who_applies_it(applied: bool | None, hint: str) -> None:
    assert way_out([Standing("v", 1, 1, 0, applied)]).startswith(hint)


def test_lsns_are_numbers_or_as_postgresql_writes_them() -> None:
    assert parsed("0/16B3748") == parsed(0x16B3748) == parsed(" 0/16b3748\n")
    for text in ("16B3748", "", "0/x", "0/123456789"):
        with pytest.raises(UsageError, match="is not an LSN"):
            parsed(text)


def test_what_is_reached_is_shown() -> None:
    reached = Reached(0x20, 0.1234, {"b": 2})
    assert line("a", reached) == "a: holds what was committed below 0/20 (0.12 s)"
    assert document(["a", "b", "a"], reached) == {
        "reached": True,
        "lsn": "0/20",
        "waited_s": 0.123,
        "views": [
            {"view": "a", "reached": True, "parked_keys": 0},
            {"view": "b", "reached": True, "parked_keys": 2},
        ],
    }
    assert lacking("a", None, True) == {"view": "a", "reached": True}
    assert lacking("a", Standing("a", 0x10, 3, 1, None), True)["lsn"] == "0/10"


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
