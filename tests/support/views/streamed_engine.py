"""An engine that is whole but for Kafka: the source is streamed by its slot, and a test is its
stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from cdc.config import Apply, Config, Delta, Kafka, View
from cdc.errors import HeadwaterError
from cdc.kafka.broker import Offsets
from jobs.run.engine import Engine
from jobs.run.process_parts import Parts
from jobs.sinks.delta.delta_reader import opened, stream
from jobs.sinks.delta.history.columns import CONTROL
from jobs.state.batch.staging import Record
from jobs.state.batch.stream_offsets import stream_offsets
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

    def __init__(
        self, source: str, state: str, spark: SparkSession, home: Path, sql: str = SQL
    ) -> None:
        self.sql = sql
        self.mirrors, self.broker = MirrorSetting(source, state), Broker()
        self.mirrors.execute(SCHEMA)
        self.mirrors.stream()
        self.lake = home / "lake"
        self.config = Config(
            source=self.mirrors.config,
            kafka=Kafka(bootstrap_servers="nowhere:9092"),
            stores={"lake": Delta(kind="delta", path=str(self.lake), cadence_s=0.0)},
            views={
                name: View(store="lake", key=("code",), sql=sql, history=cast(Any, kind))
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
            wanted = dict(session.execute(self.sql.encode()).fetchall())
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
        wait_until(self.right, "views that are what the table is")
