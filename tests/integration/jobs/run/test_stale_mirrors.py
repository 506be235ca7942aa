"""Mirrors that have to be filled anew, or that follow DDL, while changes of their tables go on:
views over them, and histories, lack nothing of what the stream was not given meanwhile.

The engine is whole but for Kafka: the source is streamed by its slot, and a test is its stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from cdc.config import Apply, Config, Delta, Kafka, View
from cdc.errors import HeadwaterError, RetryableError
from cdc.kafka.broker import Offsets
from jobs.run.builds import builder
from jobs.run.engine import Engine
from jobs.run.process_parts import Parts
from jobs.run.tables import mirrored_tables
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.run.tables.source_settings import SourceSettings
from jobs.run.views import generation_registry
from jobs.sinks.delta.delta_reader import opened, stream
from jobs.sinks.delta.history.columns import CONTROL
from jobs.state.batch.staging import Record
from jobs.state.batch.stream_offsets import stream_offsets
from jobs.state.mirrors.mirror_record import mark_stale, read_mirrors
from jobs.state.server.connection import Connection
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import batch_rows
from tests.support.views.mirror_tables import MirrorSetting, fold, topic
from tests.support.waiting import wait_until

TABLE: Final = "public.coded"
SQL: Final = "select code, token from coded"
KINDS: Final = {"plain": "", "log": "log", "scd2": "scd2"}
"""Names of views: as what each keeps its rows."""
_COLUMNS: Final = (StructField("code", StringType()), StructField("token", IntegerType()))
_POSITION: Final = (StructField("__commit_lsn", LongType()), StructField("__ordinal", LongType()))
SCHEMA: Final = """
create table coded (code text primary key, token int);
insert into coded values ('a', 1), ('b', 1), ('c', 1);
"""
MISSED: Final = (
    "update coded set token = 2 where code = 'a'",
    "delete from coded where code = 'b'",
    "insert into coded values ('d', 2)",
)
REWRITES: Final = "alter table coded add at timestamptz default clock_timestamp()"


@dataclass(slots=True)
class Broker:
    """What an engine asks of Kafka: one partition, which has so many records."""

    ends: int = 0

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 1)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        return {one: f"id of {one}" for one in topics}

    def end_offsets(self, topics: Collection[str]) -> Offsets:
        return {one: {0: self.ends} for one in topics}

    def commit_group(self, _group: str, _offsets: Offsets) -> None:
        pass


@dataclass(slots=True)
class FakeStream:
    """Whether it runs; the test has its ``apply``."""

    apply: Callable[[Any], None]
    runs: threading.Event = field(default_factory=threading.Event)

    def start(self, _begin: Offsets) -> None:
        self.runs.set()

    def error(self) -> HeadwaterError | None:
        return None

    def stop(self) -> None:
        self.runs.clear()

    def close(self) -> None:
        pass


@dataclass(slots=True)
class Batch:
    begin: Offsets
    end: Offsets
    records: Sequence[Record]
    large: None = None

    @property
    def rows(self) -> pa.Table:
        return batch_rows(fold(self.records), topic)

    def changes(self, topics: Collection[str]) -> Iterator[pa.Table]:
        yield batch_rows([one for one in self.records if topic(one.table) in topics], topic)

    def pieces(self) -> Iterator[Batch]:
        yield self


class Setting:
    """A table, a view and histories of it, and an engine that keeps them, from time to time."""

    def __init__(self, source: str, state: str, spark: SparkSession, home: Path) -> None:
        self.mirrors, self.broker = MirrorSetting(source, state), Broker()
        self.mirrors.execute(SCHEMA)
        self.mirrors.stream()
        self.lake = home / "lake"
        self.config = Config(
            source=self.mirrors.config,
            kafka=Kafka(bootstrap_servers="nowhere:9092"),
            stores={"lake": Delta(kind="delta", path=str(self.lake), cadence_s=0.0)},
            views={
                name: View(store="lake", key=("code",), sql=SQL, history=cast(Any, kind))
                for name, kind in KINDS.items()
            },
            apply=Apply(engine="database", state=str(home / "state")),
        )
        server = SimpleNamespace(connect=lambda **_: self.mirrors.reconnected(), hold=lambda: None)
        self.parts = Parts(
            self.config, (), lambda: self.config, cast(Any, server), cast(Any, self.broker), spark
        )

    @contextmanager
    def applying(self) -> Iterator[FakeStream]:
        """An engine at work, and its stream."""
        streams: list[FakeStream] = []
        stopping = threading.Event()

        def open_stream(apply: Callable[[Any], None]) -> FakeStream:
            streams.append(FakeStream(apply))
            return streams[-1]

        self.engine = Engine(self.parts, open_stream, stopping)
        thread = threading.Thread(target=self.engine.run)
        thread.start()
        try:
            yield streams[0]
        finally:
            stopping.set()
            thread.join()

    def send(self) -> list[Record]:
        """What the source has changed is in Kafka."""
        records = self.mirrors.changes()
        self.broker.ends += len(records)
        return records

    def give(self, to: FakeStream) -> None:
        """All of that as one batch of the stream, as far as it has the table."""
        assert to.runs.wait(60)
        begin, records = stream_offsets(self.mirrors.state), self.send()
        to.apply(Batch(begin, {one: {0: self.broker.ends} for one in begin}, records))

    def right(self) -> bool:
        """Whether all views are what the table is."""
        with self.mirrors.as_client() as session:
            wanted = dict(session.execute(SQL.encode()).fetchall())
        return all(self.found(name) == wanted for name in KINDS)

    def found(self, name: str) -> dict[str, int] | None:
        """What a view's table says that its rows are; None before there is one."""
        if (table := opened(str(self.lake / name))) is None:
            return None
        beside = CONTROL.get(name, _POSITION)
        columns = StructType([*_COLUMNS, *beside])
        parts = stream(table, columns)
        rows = [
            dict(zip(part, row, strict=True))
            for part in parts
            for row in zip(*part.values(), strict=True)
        ]
        rows.sort(key=lambda row: (row["__commit_lsn"], row["__ordinal"]))
        current = [row for row in rows if row.get("__current", True)]
        newest = {row["code"]: row for row in current}
        return {k: row["token"] for k, row in newest.items() if row.get("__op") not in ("d", "t")}

    def are_right(self) -> None:
        wait_until(self.right, "views that are what the table is", 40)


@pytest.fixture
def setting(
    postgres: str, quickly: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Setting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        made = Setting(source, state, quickly, tmp_path)
        monkeypatch.setattr(
            mirrored_tables, "read_table_versions", lambda *_: {TABLE: made.mirrors.versions}
        )
        yield made
        made.mirrors.close()


def test_a_batch_that_makes_a_mirror_stale(setting: Setting) -> None:
    with setting.applying() as to:
        setting.are_right()
        setting.mirrors.execute(*MISSED[:1], REWRITES, *MISSED[1:])
        setting.give(to)
        setting.are_right()
        setting.mirrors.execute("update coded set token = 3")
        setting.give(to)
        setting.are_right()


def test_mirrors_that_were_noted_as_stale_and_nothing_else(setting: Setting) -> None:
    """The process was killed behind that, or what it did besides has failed."""
    conn = setting.mirrors.state
    with setting.applying() as to:
        setting.are_right()
        mark_stale(conn, read_mirrors(conn)[TABLE].id, "it is")
        setting.mirrors.execute(MISSED[0])
        setting.send()  # the stream goes on behind it
        with setting.engine.changing():
            pass
        setting.are_right()
        setting.mirrors.execute(MISSED[1])
        setting.give(to)
        setting.are_right()
    mark_stale(conn, read_mirrors(conn)[TABLE].id, "it is")
    setting.mirrors.execute(MISSED[2])
    setting.send()
    with setting.applying():
        setting.are_right()


def test_a_mirror_that_others_filled_anew_beside_the_process(setting: Setting) -> None:
    conn = setting.mirrors.state
    with setting.applying() as to:
        setting.are_right()
        setting.mirrors.execute(*MISSED)
        setting.send()
        mark_stale(conn, read_mirrors(conn)[TABLE].id, "it is")
        settings = SourceSettings(setting.config, setting.parts.reload)
        tables = MirroredTables(setting.config, setting.parts.broker, settings)
        tables.fill(conn, [TABLE])
        with setting.engine.changing():
            pass
        setting.are_right()
        setting.mirrors.execute("update coded set token = 3")
        setting.give(to)
        setting.are_right()


def test_ddl_while_a_view_is_planned_again_for_earlier_ddl(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be kept by the columns that its table had before."""
    setting.mirrors.execute("alter table coded add a int, add b int")
    # A view calls columns as they were called when it was built.
    second = threading.Event()
    givers: list[threading.Thread] = []

    def interrupted(*arguments: Any) -> Any:
        found = builder.opened(*arguments)
        if second.is_set() and threading.current_thread() not in (here, *givers):
            second.clear()
            givers.append(threading.Thread(target=setting.give, args=[to]))
            givers[0].start()
            givers[0].join(1)  # ends in this time if nothing keeps it out
        return found

    with setting.applying() as to:
        setting.are_right()
        here = threading.current_thread()
        monkeypatch.setattr(generation_registry, "opened", interrupted)
        setting.mirrors.execute("alter table coded rename b to c", MISSED[0])
        setting.give(to)
        setting.are_right()
        setting.mirrors.execute("alter table coded drop a", "update coded set token = 5")
        setting.give(to)
        setting.mirrors.execute("alter table coded drop c", MISSED[1])
        second.set()
        wait_until(lambda: not second.is_set(), "the view to be planned again", 40)
        givers[0].join()
        setting.mirrors.execute(MISSED[2])
        setting.give(to)
        setting.are_right()


def test_a_table_that_was_added_while_the_process_runs(setting: Setting) -> None:
    config = setting.config
    before = config.source.model_copy(update={"tables": (TABLE,)})
    setting.config = config.model_copy(update={"source": before})
    setting.parts = replace(setting.parts, config=setting.config)
    with setting.applying():
        setting.are_right()
        setting.mirrors.execute("create table other (id int primary key)")
        other = View(store="lake", key=("id",), sql="select id from other")
        setting.config = config.model_copy(update={"views": {**config.views, "other": other}})
        wait_until(
            lambda: opened(str(setting.lake / "other")) is not None, "a view of the new table", 40
        )


def test_a_view_whose_keys_cannot_be_found_stops_alone(setting: Setting) -> None:
    """A value makes its join fail; mended, it lacks nothing."""
    config = setting.config
    sql = "select c.code, d.token from coded c left join coded d on 6 / d.token = c.token"
    divided = View(store="lake", key=("code",), sql=sql)

    def is_right() -> bool:
        with setting.mirrors.as_client() as session:
            wanted = dict(session.execute(sql.encode()).fetchall())
        return setting.found("divided") == wanted

    setting.mirrors.execute("delete from coded where code > 'b'; update coded set token = 2")
    setting.mirrors.execute("update coded set token = 3 where code = 'b'")
    setting.send()
    setting.config = config.model_copy(update={"views": {**config.views, "divided": divided}})
    with setting.applying() as to:
        wait_until(is_right, "a view that is joined", 40)
        for fault in ("update coded set token = 0 where code = 'b'", MISSED[2]):
            setting.mirrors.execute(fault)
            setting.give(to)
            setting.are_right()
        stopped = b"select error from headwater.views where name = 'divided'"
        wait_until(
            lambda: "data error 22012" in str(setting.mirrors.state.execute(stopped).fetchone()),
            "the view to say why it has stopped",
            40,
        )
        setting.mirrors.execute("update coded set token = 3 where code = 'b'")
        setting.give(to)
        setting.are_right()
        wait_until(is_right, "a view that lacks nothing", 40)


def test_a_state_database_that_is_away_when_its_session_is_lost(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No chore's session comes back at once: each is tried again, and the process goes on."""
    tries: list[None] = []

    def connect() -> Connection:
        tries.append(None)
        if len(tries) < 3:
            raise RetryableError("cannot connect", "start it")
        return connected()

    with setting.applying() as to:
        setting.are_right()
        connected = setting.engine._connect
        monkeypatch.setattr(setting.engine, "_connect", connect)
        setting.engine._conn.close()
        wait_until(lambda: len(tries) > 2, "a session behind two that were refused", 20)
        monkeypatch.undo()
        setting.mirrors.execute("update coded set token = 3")
        setting.give(to)
        setting.are_right()
