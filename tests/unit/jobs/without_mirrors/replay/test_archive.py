"""What may be an archive of a view, and where the view's stream goes on behind it. No server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.errors import LogError, UsageError, ViewError
from cdc.kafka.broker import Offsets
from jobs.generations.view_state import Beginning
from jobs.without_mirrors.dead_letters.letter import Letters
from jobs.without_mirrors.replay import archive
from jobs.without_mirrors.replay.archive import (
    goes_on,
    refuse_before,
    refuse_other_rows,
    replay_archive,
)
from jobs.without_mirrors.replay.start_position import parse_place
from tests.support.views.parked_view import TABLE
from views.parse.definition import parse_view
from views.spark.resolution import ResolvedView, resolve
from views.table_versions import TableVersion


def at(*offsets: int) -> Offsets:
    return {"t": dict(enumerate(offsets))}


@pytest.mark.parametrize(
    ("applied", "archived", "oldest", "expected"),
    [
        (at(5, 8), at(5, 8), at(5, 8), at(5, 8)),  # nothing is left to be read again
        (at(5, 8), at(4, 9), at(3, 0), at(4, 8)),  # the archive is behind in one partition
        (at(5, 8), at(9, 9), at(7, 0), at(7, 8)),  # Kafka has lost what the view applies next
        (at(5), at(5, 2), at(0, 0), at(5, 0)),  # of a partition that is new the view has nothing
    ],
)
def test_the_stream_goes_on_where_nothing_is_left_out(
    applied: Offsets, archived: Offsets, oldest: Offsets, expected: Offsets
) -> None:
    assert goes_on(applied, archived, oldest) == expected


@pytest.mark.parametrize(("archived", "gap"), [(at(5, 3), 1), ({}, 4)])
def test_what_is_neither_in_the_archive_nor_in_kafka_is_refused(
    archived: Offsets, gap: int
) -> None:
    with pytest.raises(LogError, match=rf"t-1-\d, and Kafka begins at 4: the {gap} records"):
        goes_on(at(9, 9), archived, {"t": {0: 0, 1: 4}})


def view(sql: str, *key: str, table: TableVersion = TABLE) -> ResolvedView:
    return resolve(parse_view("v", "s", list(key or ("id",)), sql), table)


def test_a_view_of_some_columns_of_an_archive_may_be_replayed_from_it() -> None:
    refuse_other_rows(view("select id, n from t"), view("select * from t"))
    refuse_other_rows(
        view("select id, upper(body) as b from t where n > 1"),
        view("select id, n, upper(body) as b from t where n > 1"),
    )


@pytest.mark.parametrize(
    ("of", "kept", "said"),
    [
        ("select id, n from t", "select id, body from t", "lacks n"),
        ("select id, n + 1 as n from t", "select id, n from t", "lacks n"),
        ("select id, n from t where n > 1", "select id, n from t", "another WHERE"),
    ],
)
def test_an_archive_of_other_rows_is_refused(of: str, kept: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        refuse_other_rows(view(of), view(kept))


def test_an_archive_of_another_table_or_key_is_refused() -> None:
    wanted = view("select id, n from t")
    with pytest.raises(UsageError, match=r"it reads public\.u, and v reads public\.t"):
        refuse_other_rows(wanted, view("select id, n from u", table=replace(TABLE, table="u")))
    with pytest.raises(UsageError, match=r"it has key \(a\), and v \(id\)"):
        refuse_other_rows(wanted, view("select id, id as a, n from t", "a"))


def test_a_view_that_keeps_no_log_is_no_archive() -> None:
    nobody: Any = None
    kept = view("select id, n from t")
    with pytest.raises(UsageError, match='view v has no history = "log"'):
        replay_archive(
            nobody, nobody, kept, nobody, kept, nobody, "0/1", parse_place("beginning"), 1
        )


def test_an_archive_that_lacks_events_which_wait_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody: Any = None
    letters = Letters({str(number): nobody for number in range(3)})
    monkeypatch.setattr(archive, "live_generation", lambda *_: SimpleNamespace(live_s=0.0))
    monkeypatch.setattr(archive, "state_of", lambda *_: SimpleNamespace(beginning=lambda: None))
    monkeypatch.setattr(archive, "waiting", lambda *_: letters)
    config: Any = SimpleNamespace(
        apply=SimpleNamespace(state=str(tmp_path)), source=SimpleNamespace(name="s")
    )
    with pytest.raises(ViewError, match=r"view v, lacks 3 events .*dead-letters retry v"):
        archive._archived(config, nobody, view("select id from t"), parse_place("beginning"))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("0/FF", "begins at LSN 0/100"),
        ("1970-01-01T00:00:49", "begins at LSN"),
        ("7", "no offsets"),
    ],
)
def test_a_place_before_the_archive_is_refused(place: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        refuse_before("v", Beginning({}, 0x80, 0x100), 50.0, parse_place(place))


@pytest.mark.parametrize("place", ["beginning", "0/100", "1970-01-01T00:00:50"])
def test_a_place_in_the_archive_is_taken(place: str) -> None:
    refuse_before("v", Beginning({}, 0x80, 0x100), 50.0, parse_place(place))
