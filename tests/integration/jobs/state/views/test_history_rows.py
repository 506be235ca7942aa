"""Which rows a history has: of any SQL, of snapshots, and where some cannot be made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from cdc.errors import ViewError
from jobs.state.dead_letters.faulty_records import faulty_records
from jobs.state.histories.queue import added, make_up_for_history
from tests.support.servers.postgres import fresh_database
from tests.support.views.histories import as_of
from tests.support.views.history_setting import KINDS, SQL, HistorySetting, Table


@pytest.fixture
def setting(postgres: str, spark: SparkSession, tmp_path: Path) -> Iterator[HistorySetting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        made = HistorySetting(source, state, spark, tmp_path / "lake")
        yield made
        made.close()


def test_a_change_of_which_no_row_can_be_made_waits_for_a_command(setting: HistorySetting) -> None:
    sql = "select id as order_id, 10 / extra as share from orders"
    setting.tables = [Table(setting, "log", "shares", sql)]
    setting.know()
    (table,) = setting.tables
    table.load()
    table.keep()
    setting.do(
        "update orders set extra = 0 where id = 2", "update orders set extra = 5 where id = 2"
    )
    setting.do("update orders set extra = 2 where id = 1")
    setting.apply(setting.engine.mirrors.changes())
    table.drain()
    assert [one.cause for one in faulty_records(setting.engine.conn)] == ["division by zero"]
    newest = as_of("log", table.rows(), 1 << 60)
    assert {id_: row["share"] for id_, row in newest.items()} == {1: 5, 2: 2, 3: 3, 4: 2}
    setting.do("update orders set extra = 10 where id = 2")
    setting.apply(setting.engine.mirrors.changes())
    assert len(faulty_records(setting.engine.conn)) == 1, "the mirror goes on, the history waits"


def test_a_row_of_a_snapshot_takes_its_place_behind_later_changes(setting: HistorySetting) -> None:
    """Where the history has all changes since; one that began later knows nothing of them."""
    setting.add(*KINDS)
    for one in setting.tables:
        one.load()
        one.keep()
    setting.do("insert into orders values (7, 7, 'seven', 0), (8, 8, 'eight', 0)")
    inserted = setting.engine.mirrors.changes()
    setting.apply(inserted)
    at = setting.moments[-1][0]
    read = [
        record._replace(op="r", commit_lsn=at, ordinal=number, record=f"orders-1-{number}")
        for number, record in enumerate(inserted)
    ]
    setting.do("update orders set total = 70 where id = 7", "delete from orders where id = 8")
    setting.apply(setting.engine.mirrors.changes())
    before = list(setting.tables)
    later = [Table(setting, kind, f"later_{kind}", SQL) for kind in KINDS]
    setting.tables = [*before, *later]
    setting.know()
    for one in later:
        one.load()
        one.keep()
    setting.apply(read)
    setting.do("truncate orders", "insert into orders values (9, 9, 'nine', 0)")
    setting.apply(setting.engine.mirrors.changes())
    setting.apply([record._replace(ordinal=record.ordinal + 5) for record in read])
    for one in setting.tables:
        one.drain()
        found = [row for row in one.rows() if row["__commit_lsn"] == at]
        ids = [7, 7, 8, 8] if one in before else []
        assert sorted(row["id"] for row in found) == ids, (one.name, found)
    for one in before:  # what was read below that is not known to be so any more
        make_up_for_history(setting.engine.conn, one.history)
    setting.apply([record._replace(ordinal=record.ordinal + 9) for record in read])
    for one in before:
        one.drain()
        assert sum(row["__commit_lsn"] == at for row in one.rows()) == 4
    setting.tables = before
    setting.check()
    setting.tables, setting.moments = later, setting.moments[-1:]
    setting.check()


def test_rows_that_cannot_be_made_keep_no_others_from_their_history(
    setting: HistorySetting,
) -> None:
    """Neither when it is loaded nor when all rows are read again."""
    sql = "select id as order_id, 10 / extra as share from orders"
    setting.engine.mirrors.execute(
        "insert into orders select i, i, 'n', i % 100 from generate_series(5, 2000) i"
    )
    setting.apply(setting.engine.mirrors.changes())
    setting.tables = [Table(setting, kind, f"shares_{kind}", sql) for kind in KINDS]
    setting.know()
    wanted = {i: 10 // (i if i < 5 else i % 100) for i in range(1, 2001) if i < 5 or i % 100}
    for one in setting.tables:
        with pytest.raises(psycopg.DataError):
            one.load()
        with pytest.raises(ViewError, match=r"apply\.dlq_limit is 4: division by zero"):
            one.load(4)
        one.load(20)
        one.keep()
        newest = as_of(one.kind, one.rows(), 1 << 60)
        assert {id_: row["share"] for id_, row in newest.items()} == wanted
    known = setting.tables
    setting.tables = []
    setting.know()
    setting.do(
        "update orders set extra = 0 where id = 7", "update orders set extra = 5 where id = 8"
    )
    setting.do("update orders set extra = 1 where id = 100", "delete from orders where id = 9")
    setting.apply(setting.engine.mirrors.changes())  # nobody collects them
    setting.tables = known
    setting.know()
    for one in setting.tables:
        batch = make_up_for_history(setting.engine.conn, one.history)
        one.drain()
        assert added(setting.engine.conn, one.history.id, batch) == 3
        newest = as_of(one.kind, one.rows(), 1 << 60)
        changed = {**wanted, 8: 2, 100: 10}
        del changed[9]
        assert {id_: row["share"] for id_, row in newest.items()} == changed


def test_a_numeric_key_is_shown_as_text(setting: HistorySetting) -> None:
    """1.0 and 1.00 are one row to the source, and two to stores."""
    sql = "select k::text as order_id, x from prices where x > 0"
    table = Table(setting, "log", "prices", sql, label="public.prices")
    setting.tables = [table]
    setting.know()
    table.load()
    table.keep()
    setting.do("update prices set k = 1.00 where k = 1", "delete from prices where k = 2.5")
    middle = setting.moments[-1][0]
    setting.do("insert into prices values (2.5, 5)", "update prices set x = 7 where k = 1")
    setting.apply(setting.engine.mirrors.changes())
    table.drain()
    then = [as_of("log", table.rows(), lsn) for lsn in (middle, 1 << 60)]
    shown = [{id_: row["x"] for id_, row in found.items()} for found in then]
    assert shown == [{"1.00": 1}, {"1.00": 7, "2.5": 5}]
    setting.engine.add("priced", "select k::text as k, x from prices", ["k"])
    setting.engine.mirrors.execute("update prices set k = 2.50 where k = 2.5")
    setting.engine.step()
    setting.engine.check()


def test_sql_that_postgresql_alone_judges_has_a_history(setting: HistorySetting) -> None:
    sql = (
        "with some as (select * from orders where note ~ '^n') select s.id as order_id, "
        "jsonb_build_object('total', s.total, 'marks', t.marks) as doc, t.n "
        "from some s left join lateral (select count(*) as n, array_agg(m order by m) as marks "
        "from generate_series(1, s.extra % 3) m) t on true"
    )
    setting.tables = [Table(setting, kind, f"any_{kind}", sql) for kind in KINDS]
    setting.know()
    for one in setting.tables:
        one.load()
        one.keep()
    setting.do("update orders set extra = 8 where id = 1", "update orders set total = 9")
    setting.do("update orders set note = 'else' where id = 2", "delete from orders where id = 3")
    setting.apply(setting.engine.mirrors.changes())
    for one in setting.tables:
        one.drain()
        newest = as_of(one.kind, one.rows(), 1 << 60)
        found = {id_: (json.loads(row["doc"]), row["n"]) for id_, row in newest.items()}
        assert found == {
            1: ({"total": 9, "marks": [1, 2]}, 2),
            4: ({"total": 9, "marks": [1]}, 1),
        }


def test_a_key_that_is_not_the_table_s_is_refused(setting: HistorySetting) -> None:
    sql = "select id as order_id, coalesce(extra, 0) as extra from orders"
    with (
        pytest.raises(ViewError, match=r"whose key is \(id\)"),
        setting.engine.conn.transaction(),
    ):
        Table(setting, "log", "twice", sql, ("order_id", "extra"))
