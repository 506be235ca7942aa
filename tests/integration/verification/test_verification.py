"""A view in memory, compared with a real source through a real capture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc.errors import RetryableError
from cdc.kafka.broker import Broker
from jobs.sinks.contract import ViewRow
from tests.support.commands.deployment import Deployment
from tests.support.sample_view import ODD, ROWS, TABLE, TYPES, MemoryView, add_loud
from tests.support.waiting import wait_until


@pytest.fixture
def view(tmp_path: Path, source_name: str, database: str, kafka: str) -> Iterator[MemoryView]:
    deployment = Deployment(tmp_path, source_name, database, kafka)
    deployment.execute(TYPES, TABLE, ROWS, ODD)
    deployment.init()
    with deployment.running("capture") as capture, Broker(kafka) as broker:
        deployment.captured(capture)
        view = MemoryView(deployment, broker, bend=add_loud)
        yield view


def bent(change: Callable[[dict[int, ViewRow]], Any]) -> Callable[[dict[int, ViewRow]], None]:
    def bend(rows: dict[int, ViewRow]) -> None:
        add_loud(rows)
        change(rows)

    return bend


def test_a_view_equal_in_every_type_is_found_equal(view: MemoryView) -> None:
    report = view.verify()
    assert report.differences == []
    assert report.equal
    assert (report.source_rows, report.view_rows, report.rounds) == (304, 304, 1)
    assert report.lsn > 0


def test_every_kind_of_difference_is_found_and_named(view: MemoryView) -> None:
    def change(rows: dict[int, ViewRow]) -> None:
        del rows[7]
        rows[9000] = rows[8]._replace(key=(9000,), values={**rows[8].values, "id": 9000})
        rows[9].values["price"] = "13.5001"
        rows[9].values["name"] = None

    view.bend = bent(change)
    report = view.verify()
    assert not report.equal
    assert (report.missing, report.extra, report.different, report.undecided) == (1, 1, 1, 0)
    assert (report.source_rows, report.view_rows) == (304, 304), "less one, and one more"
    by_kind = {item.kind: item for item in report.differences}
    assert by_kind["missing"].key == {"id": 7}
    assert by_kind["extra"].key == {"id": 9000}
    assert by_kind["different"].key == {"id": 9}
    assert by_kind["different"].columns == {
        "price": ("13.5", "13.5001"),
        "name": ("thing 9", None),
    }


def test_rows_changed_during_a_round_are_decided_in_the_next(view: MemoryView) -> None:
    changes = [
        "update things set name = 'changed' where id <= 5",
        "delete from things where id between 6 and 10",
        "insert into things (id, name) values (2000, 'new')",
        "delete from things where id = 11",
        "insert into things (id, name) values (11, 'again')",
        "update things set id = 3000 where id = 12",
    ]

    def meanwhile(said: str) -> None:
        if said == "reading the view" and changes:
            view.deployment.execute(*changes)
            changes.clear()
            view.deployment.captured()
            view.apply()

    view.on_step = meanwhile
    report = view.verify()
    assert report.differences == []
    assert report.equal
    assert report.rounds == 2
    assert (report.source_rows, report.view_rows) == (304, 304), "both at the LSN"
    assert report.rows_read == 300, "what the view had by then"
    assert view.asked == [None, {*range(1, 13), 2000, 3000}]


def test_a_difference_among_the_changed_rows_is_found_in_the_next_round(view: MemoryView) -> None:
    changes = ["update things set name = 'changed' where id <= 5"]

    def meanwhile(said: str) -> None:
        if said == "reading the view" and changes:
            view.deployment.execute(*changes)
            changes.clear()
            view.deployment.captured()
            view.apply()

    view.on_step = meanwhile
    view.bend = bent(lambda rows: rows[3].values.update(name="wrong", loud="wrong!"))
    report = view.verify()
    assert (report.rounds, report.different, report.missing, report.extra) == (2, 1, 0, 0)
    assert [item.key for item in report.differences] == [{"id": 3}]


def test_a_copy_that_stands_elsewhere_is_found_beside_a_row_that_changes(view: MemoryView) -> None:
    changes = ["update things set name = 'changed' where id = 5"]

    def meanwhile(said: str) -> None:
        if said == "reading the view" and changes:
            view.deployment.execute(*changes)
            changes.clear()
            view.deployment.captured()
            view.apply()

    def copied(rows: dict[int, ViewRow]) -> None:
        add_loud(rows)
        rows[-5] = rows[5]

    view.on_step, view.bend = meanwhile, copied
    report = view.verify()
    assert (report.rounds, report.different, report.missing, report.extra) == (2, 0, 0, 1)
    assert [item.key for item in report.differences] == [{"id": 5}]


def test_a_row_that_never_rests_is_undecided_and_not_equal(view: MemoryView) -> None:
    def meanwhile(said: str) -> None:
        if said == "reading the view":
            view.deployment.execute("update things set size = size + 1 where id = 1")
            view.deployment.captured()
            view.apply()

    view.on_step = meanwhile
    report = view.verify()
    assert report.undecided == 1
    assert not report.equal
    assert (report.different, report.missing, report.extra) == (0, 0, 0)


def test_a_view_that_is_not_applied_is_an_error_that_says_so(view: MemoryView) -> None:
    view.applying = False
    said = r"view things_view to apply .* Check that `headwater apply` is running for things_view"

    def is_told() -> bool:
        with pytest.raises(RetryableError) as caught:
            view.verify(timeout_s=3)
        return re.search(said, str(caught.value)) is not None

    wait_until(is_told, "it to be told, once capture gets there in time")


def test_a_capture_that_does_not_run_is_an_error_that_says_so(
    tmp_path: Path, source_name: str, database: str, kafka: str
) -> None:
    deployment = Deployment(tmp_path, source_name, database, kafka)
    deployment.execute(TYPES, TABLE, ROWS)
    deployment.init()
    with Broker(kafka) as broker:
        view = MemoryView(deployment, broker, bend=add_loud)
        with pytest.raises(
            RetryableError, match=r"in Kafka; .* Check that `headwater capture` is running"
        ):
            view.verify(timeout_s=1)


def test_verification_leaves_no_slot_and_no_transaction(view: MemoryView) -> None:
    view.verify()

    def left() -> int:
        query = (
            "select (select count(*) from pg_replication_slots where temporary) + (select count(*)"
            " from pg_stat_activity where application_name = 'headwater verify')"
        )
        with psycopg.connect(view.deployment.dsn) as conn:
            row = conn.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    wait_until(lambda: left() == 0, "the temporary slot and the session of verify to be gone")
