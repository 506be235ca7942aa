"""Histories over tables of a real source, whose batches a test applies step by step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
from pyspark.sql import SparkSession

from cdc.config import Delta
from cdc.lsn import parse_lsn
from cdc.source.types import load_types
from jobs.run.tables.mirrored_tables import planned
from jobs.run.views.histories import HistoryKeeper, LoadedHistory, opened_history
from jobs.sinks.delta.history.table import DeltaHistory
from jobs.sinks.stores import open_generations, open_sink
from jobs.state.batch.staging import Record
from jobs.state.histories.queue import History, make_queue
from jobs.state.views.store_rows import form_of_store
from jobs.state.views.view_columns import described, spark_columns
from jobs.state.views.view_generation import ViewGeneration, make_tables, read_key
from jobs.state.views.view_record import add_view, note_loaded
from tests.support.views.engine_setting import EngineSetting
from tests.support.views.histories import as_of, rows_of
from views.maintain import plan_view

SCHEMA: Final = """
create table orders (id int primary key, total numeric(12,2), note text, extra int);
alter table orders alter column note set storage external;
insert into orders select i, i, repeat('n' || i, 2000), i from generate_series(1, 4) i;
create table prices (k numeric primary key, x int);
insert into prices values (1.0, 1), (2.50, 2);
"""


_SQL: Final = (
    "select id as order_id, total, {0} as note, upper(left({0}, 3)) as mark from orders "
    "where total > 0"
)
SQL: Final = _SQL.format("note")


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

    def do(self, *statements: str, note: str = "note") -> None:
        """A transaction of the source; what its view is by then. ``note``: its column's name."""
        with psycopg.connect(self.engine.mirrors.config.dsn) as conn:
            for statement in statements:
                conn.execute(statement.encode())
            conn.commit()
            rows = {row[0]: row[1:] for row in conn.execute(_SQL.format(note).encode())}
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
