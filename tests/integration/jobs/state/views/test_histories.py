"""Histories kept by batches of the shared stream: as of any LSN they are what the source was.

Batches and the writing of the store are killed between every two steps.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from cdc.config import Delta
from cdc.errors import ViewError
from cdc.lsn import parse_lsn
from cdc.source.types import load_types
from jobs.run.stream import batches
from jobs.run.tables.mirrored_tables import planned
from jobs.run.views import histories
from jobs.run.views.histories import HistoryKeeper, LoadedHistory, opened_history
from jobs.sinks.delta.history.table import DeltaHistory
from jobs.sinks.stores import open_generations, open_sink
from jobs.state.batch.staging import Record
from jobs.state.dead_letters.faulty_records import faulty_records
from jobs.state.histories.queue import History, added, make_queue, make_up_for_history, waiting
from jobs.state.views.store_rows import form_of_store
from jobs.state.views.view_columns import described, spark_columns
from jobs.state.views.view_generation import ViewGeneration, make_tables, read_key
from jobs.state.views.view_record import add_view, note_loaded
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting, Killed, split
from tests.support.views.histories import as_of, rows_of
from views.maintain import plan_view

SCHEMA: Final = """
create table orders (id int primary key, total numeric(12,2), note text, extra int);
alter table orders alter column note set storage external;
insert into orders select i, i, repeat('n' || i, 2000), i from generate_series(1, 4) i;
create table prices (k numeric primary key, x int);
insert into prices values (1.0, 1), (2.50, 2);
"""
SQL: Final = (
    "select id as order_id, total, note, upper(left(note, 3)) as mark from orders where total > 0"
)
TRANSACTIONS: Final[tuple[tuple[str, ...], ...]] = (
    ("update orders set total = total + 1 where id <= 2",),  # the large note is left out
    ("update orders set total = 0 where id = 3", "update orders set total = 3 where id = 3"),
    ("update orders set id = 10 where id = 2", "insert into orders values (5, 5, 'five', 0)"),
    (
        "update orders set total = 20 where id = 1",
        "update orders set total = 0 where id = 1",
        "update orders set total = 21, note = 'back' where id = 1",
        "insert into orders values (6, 0, 'never seen', 0)",
    ),
    ("delete from orders where id in (3, 5)", "insert into orders values (3, 33, 'again', 0)"),
    ("update orders set total = -1 where id = 4",),
    ("truncate orders", "insert into orders values (1, 1, 'after', 0)"),
    ("update orders set note = 'last'",),
)
KINDS: Final = ("log", "scd2")


class Table:
    """A history, its table, and what keeps it."""

    def __init__(
        self,
        setting: HistorySetting,
        kind: str,
        name: str,
        sql: str,
        key: tuple[str, ...] = ("order_id",),
        label: str = "public.orders",
    ) -> None:
        self.setting, self.kind, self.name, self.sql = setting, kind, name, sql
        self.key, self.label = key, label
        conn = setting.engine.conn
        table = setting.engine.mirrors.mirrors[label].table
        plan = plan_view(name, sql, self.key, {label: planned(table)})
        record = add_view(conn, name, 1, sql, self.key, "lake", kind)
        make_tables(conn, record.id, plan, relation)
        make_queue(conn, record.id)
        self.record = record
        self.open(plan)

    def open(self, plan: Any = None) -> None:
        """As a process that starts opens it."""
        engine, label = self.setting.engine, self.label
        conn = engine.conn
        if plan is None:
            table = engine.mirrors.mirrors[label].table
            plan = plan_view(self.name, self.sql, self.key, {label: planned(table)})
        key = read_key(conn, self.record.id, plan)
        kept = ViewGeneration(self.record.id, self.name, 1, plan, key, relation)
        self.columns = described(conn, plan.whole(relation), load_types(conn))
        form = form_of_store(self.setting.lake, self.columns, self.key, None)
        found = opened_history(conn, self.record, kept, self.columns, form, relation)
        assert found is not None
        self.history: History = found

    def load(self, left_out_at_most: int | None = None) -> None:
        """Fill its table with what the mirror has."""
        rows = LoadedHistory(
            self.setting.engine.conn,
            self.record,
            self.history,
            spark_columns(self.columns),
            lambda _: None,
            left_out_at_most,
        )
        stored = open_generations(
            self.setting.lake, self.name, self.setting.spark, 5.0, None, self.kind
        )
        conn = self.setting.engine.conn
        with conn.transaction():
            conn.execute(b"set transaction isolation level repeatable read")
            stored.load(1, rows, spark_columns(self.columns), self.key)
            note_loaded(conn, self.record.id)
        stored.switch(1)

    def keep(self) -> None:
        """A keeper of a process that starts."""
        sink = open_sink(self.setting.lake, self.name, self.setting.spark, 5.0, 1, None, self.kind)
        sink.prepare(spark_columns(self.columns), self.key)
        assert isinstance(sink, DeltaHistory)
        self.keeper = HistoryKeeper(self.history, sink)

    def drain(self) -> None:
        while self.keeper.turn(self.setting.engine.conn).more:
            pass

    def rows(self) -> list[dict[str, Any]]:
        found = rows_of(
            Path(self.setting.lake.path) / self.name, spark_columns(self.columns), self.kind
        )
        return [{**row, "id": row["order_id"]} for row in found]


class HistorySetting:
    """Tables of a source, and histories over them."""

    def __init__(self, source: str, state: str, spark: SparkSession, lake: Path) -> None:
        self.engine = EngineSetting(source, state, SCHEMA)
        self.spark, self.lake = spark, Delta(kind="delta", path=str(lake))
        self.tables: list[Table] = []
        self.moments: list[tuple[int, dict[Any, Any]]] = []

    def add(self, *kinds: str) -> None:
        """Declare histories; batches queue their changes from here on."""
        self.tables = [Table(self, kind, f"orders_{kind}", SQL) for kind in kinds]
        self.know()

    def know(self) -> None:
        engine = self.engine
        topics = {f"shop.{label}": label for label in engine.labels}
        mirrors = {label: engine.mirrors.take(label) for label in engine.labels}
        engine.batches.know(mirrors, topics, [], [one.history for one in self.tables])

    def begin_again(self) -> None:
        """The process was killed, and starts."""
        self.engine.begin_again()
        for one in self.tables:
            one.open()
            one.keep()
        self.know()

    def do(self, *statements: str) -> None:
        """A transaction of the source; what its view is by then."""
        with psycopg.connect(self.engine.mirrors.config.dsn) as conn:
            for statement in statements:
                conn.execute(statement.encode())
            conn.commit()
            rows = {row[0]: row[1:] for row in conn.execute(SQL.encode())}
            (end,) = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone() or ("",)
        self.moments.append((parse_lsn(end), rows))

    def apply(self, records: Sequence[Record]) -> None:
        begin, end, folded = self.engine.table(records)
        self.engine.batches.apply(begin, end, folded, changes=[self.engine.every(records)])

    def check(self) -> None:
        for one in self.tables:
            rows = one.rows()
            for lsn, wanted in self.moments:
                then = as_of(one.kind, rows, lsn)
                found = {id_: (row["total"], row["note"], row["mark"]) for id_, row in then.items()}
                assert found == wanted, (one.kind, lsn)

    def close(self) -> None:
        self.engine.close()


def relation(label: str) -> str:
    return f'mirror."{label}"'


@pytest.fixture
def setting(postgres: str, quickly: SparkSession, tmp_path: Path) -> Iterator[HistorySetting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        made = HistorySetting(source, state, quickly, tmp_path / "lake")
        yield made
        made.close()


def test_as_of_any_lsn_they_are_what_the_source_was(setting: HistorySetting) -> None:
    generator = random.Random(3)
    setting.do("update orders set extra = 1 where id = 1")
    setting.add(*KINDS)
    setting.apply(setting.engine.mirrors.changes())
    setting.do("update orders set total = 4.5 where id = 4")  # between its begin and its load
    setting.do("insert into orders values (7, 7, 'seven', 0)", "delete from orders where id = 7")
    setting.apply(setting.engine.mirrors.changes())
    setting.moments = setting.moments[-1:]
    for one in setting.tables:
        one.load()
        one.keep()
    for statements in TRANSACTIONS:
        setting.do(*statements)
        for part in split(setting.engine.mirrors.changes(), generator):
            setting.apply(part)
        if generator.random() < 0.5:
            for one in setting.tables:
                one.drain()
    for one in setting.tables:
        one.drain()
        assert waiting(setting.engine.conn, one.record.id) == 0
    setting.check()


@pytest.mark.parametrize("kind", KINDS)
def test_killed_between_every_two_steps(
    kind: str, setting: HistorySetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.add(kind)
    (table,) = setting.tables
    table.load()
    table.keep()
    for number, statements in enumerate(TRANSACTIONS):
        setting.do(*statements)
        changes = setting.engine.mirrors.changes()
        with monkeypatch.context() as patch:
            killed(patch, batches, "end_batch")  # queued, and the mirrors written
            with pytest.raises(Killed):
                setting.apply(changes)
        setting.begin_again()
        setting.apply(changes)
        for step in ("write_changes", "settle"):
            with monkeypatch.context() as patch:
                if step == "write_changes":
                    killed(patch, table.keeper.sink, step)
                else:
                    killed(patch, histories, step)
                with pytest.raises(Killed):
                    table.keeper.turn(setting.engine.conn)
            if number % 2:
                setting.begin_again()
        table.drain()
        setting.check()


def killed(patch: pytest.MonkeyPatch, where: Any, name: str) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise Killed(name)

    patch.setattr(where, name, dies)


def test_columns_that_come_and_become_wider(setting: HistorySetting) -> None:
    setting.add(*KINDS)
    for one in setting.tables:
        one.load()
        one.keep()
    setting.do("update orders set total = 8 where id = 1")
    setting.apply(setting.engine.mirrors.changes())
    setting.do(
        "alter table orders add column note2 text default 'x'",
        "alter table orders alter extra type bigint",
        "update orders set note2 = 'y' where id = 2",
    )
    changes = setting.engine.mirrors.changes()
    setting.engine.mirrors.follow(changes)
    setting.begin_again()
    setting.apply(changes)
    for one in setting.tables:
        one.drain()
    setting.check()


def test_what_was_passed_over_is_made_up_for(setting: HistorySetting) -> None:
    setting.add(*KINDS)
    for one in setting.tables:
        one.load()
        one.keep()
    for statements in TRANSACTIONS[:3]:
        setting.do(*statements)
    setting.apply(setting.engine.mirrors.changes())
    tables, setting.tables = setting.tables, []
    setting.know()
    for statements in TRANSACTIONS[3:]:
        setting.do(*statements)
    setting.apply(setting.engine.mirrors.changes())  # nobody collects them
    setting.tables = tables
    setting.know()
    for one in tables:
        make_up_for_history(setting.engine.conn, one.history)
    setting.do("update orders set total = 9 where id = 1")
    setting.apply(setting.engine.mirrors.changes())
    for one in tables:
        one.drain()
    setting.moments = [*setting.moments[:3], *setting.moments[-1:]]
    setting.check()
    for one in tables:  # nothing differs: nothing is added
        before = len(one.rows())
        batch = make_up_for_history(setting.engine.conn, one.history)
        one.drain()
        assert added(setting.engine.conn, one.history.id, batch) == 0
        assert len(one.rows()) == before


@pytest.mark.parametrize("step", ["", "note_adding", "write_changes", "settle", "note_added"])
def test_rows_that_somebody_changed_are_read_again(
    step: str, setting: HistorySetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted once, wherever that was interrupted."""
    setting.add("log")
    (table,) = setting.tables
    table.load()
    table.keep()
    held = DeltaTable(str(Path(setting.lake.path) / table.name))
    held.delete("order_id = 3")
    held.update({"total": "99"}, predicate="order_id = 1")
    batch = make_up_for_history(setting.engine.conn, table.history)
    with monkeypatch.context() as patch:
        if step:
            killed(patch, table.keeper.sink if step == "write_changes" else histories, step)
            with pytest.raises(Killed):
                table.drain()
    table.drain()
    assert added(setting.engine.conn, table.history.id, batch) == 2
    then = as_of("log", table.rows(), 1 << 60)
    assert {id_: int(row["total"]) for id_, row in then.items()} == {1: 1, 2: 2, 3: 3, 4: 4}


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
