"""A view over mirrors of its tables, a log and dead letters in memory, batch by batch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from cdc.config import Config
from cdc.kafka.broker import Offsets
from cdc.kafka.broker import Record as KafkaRecord
from cdc.topics import partition_for, table_topic
from jobs.delta_engine.keeper import MirroredKeeper
from jobs.generations.declaration import declared
from jobs.generations.view_state import Replay, open_state
from jobs.without_mirrors.keeper import open_keeper
from jobs.without_mirrors.replay.replay import later
from jobs.without_mirrors.schemas_topic import Versions
from tests.support.events.events import COMMITTED_US, Record, event
from tests.support.views.parked_view import MemoryBox
from tests.support.views.recording_sink import RecordingSink
from views.parse.definition import parse_view
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, TEXT, PgType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 2
_KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
_AT = datetime.fromtimestamp(COMMITTED_US / 1e6, UTC)


def version(table: str, /, key: tuple[str, ...] = ("id",), **columns: PgType) -> TableVersion:
    """A version of a table, told from others by what it is."""
    made = tuple(TableColumn(c, kind, c not in key) for c, kind in columns.items())
    id_ = f"{abs(hash((table, made, key))):016x}"[:16]
    return TableVersion(id_, "public", table, made, key)


CUSTOMERS = version("customers", id=INT4, name=TEXT)
ORDERS = version("orders", id=INT4, customer_id=INT4, total=INT4, note=TEXT)
JOINED = """
    select o.id, o.total, o.note, c.name from orders o left join customers c on c.id = o.customer_id
"""


class MirroredView:
    """The view ``v``; each ``apply`` is the next batch of its log."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        patched: pytest.MonkeyPatch,
        sql: str = JOINED,
        key: tuple[str, ...] = ("id",),
        tables: tuple[TableVersion, ...] = (CUSTOMERS, ORDERS),
    ) -> None:
        self._spark = spark
        self._definition = parse_view("v", "s", key, sql)
        self._state = open_state(root / "v", declared(self._definition))
        self.versions: dict[str, Versions] = {}
        self.described = 0
        for table in tables:
            self.describe(table)
        self.sink, self.box = RecordingSink(), MemoryBox()
        self.log: list[tuple[str, int, int, bytes | None, bytes | None]] = []
        self.ends: list[Offsets] = []
        self.group: Offsets = {}
        self.limit = 10
        patched.setattr(
            "jobs.without_mirrors.table_descriptions.described", lambda *_: deepcopy(self.versions)
        )
        patched.setattr("jobs.delta_engine.keeper.LetterBox", lambda *_: self.box)
        for module in ("jobs.delta_engine.batch_records", "jobs.without_mirrors.snapshot_rows"):
            patched.setattr(f"{module}.read_topics", self._read)

    def describe(self, table: TableVersion) -> None:
        """The version of a table that capture met last."""
        of_table = self.versions.setdefault(table.name, {})
        of_table.pop(table.schema_id, None)
        of_table[table.schema_id] = table
        self.described += 1

    def end_offsets(self, topics: list[str]) -> Offsets:
        """As ``Broker.end_offsets``, of the topic of schemas."""
        return {topic: {0: self.described} for topic in topics}

    def partitions(self, topics: list[str]) -> dict[str, int]:
        """As ``Broker.partitions``."""
        return dict.fromkeys(topics, PARTITIONS)

    def restart(self) -> None:
        """As a new process goes on from what is durable."""
        config = Config.model_validate(
            {
                "source": {"name": "shop", "dsn": "dbname=unused", "tables": ["public.*"]},
                "kafka": {"bootstrap_servers": "localhost:1"},
                "stores": {"s": {"kind": "redis", "url": "redis://localhost:1/0"}},
                "views": {"v": {"store": "s", "key": list(self._definition.key),
                                "sql": self._definition.sql}},
                "apply": {"dlq_limit": self.limit},
            }
        )  # fmt: skip
        keeper = open_keeper(
            self._spark, config, self._definition, self._state, self.sink, cast("Any", self)
        )
        assert isinstance(keeper, MirroredKeeper)
        self.keeper = keeper
        created = self.sink.prepare(keeper.read(), self._definition.key)
        keeper.open(created, self.ends[-1] if self.ends else {})

    def write(self, table: TableVersion, *records: Record) -> None:
        """Append events; a TRUNCATE goes to every partition."""
        topic = table_topic("shop", table.schema, table.table)
        for key, value in records:
            some = range(PARTITIONS) if key is None else [partition_for(key, PARTITIONS)]
            for partition in some:
                offset = self.end().get(topic, {}).get(partition, 0)
                self.log.append((topic, partition, offset, key, value))

    def put(self, table: TableVersion, lsn: int, op: str = "c", **row: Any) -> None:
        values = {column.name: None for column in table.columns} | row
        self.write(table, event(lsn, 1, values, op, table.key, table.schema_id))

    def delete(self, table: TableVersion, lsn: int, **row: Any) -> None:
        gone = event(lsn, 1, row, "d", table.key, table.schema_id)
        self.write(table, gone, (gone[0], None))

    def apply(self, upto: Offsets | None = None) -> tuple[int, int]:
        """All that is new, or some of it, as one batch; how many records and keys it had."""
        number, end = len(self.ends), upto or self.end()
        self._plan(number, end)
        records = self._frame(self.ends[-1] if self.ends else {}, end)
        _, account = self.keeper.apply(records, number, end)
        self.ends.append(end)
        return account.records, account.keys

    def retry(self) -> dict[str, str]:
        """Apply what waits after all, as another process does; what is still refused, and why."""
        self.restart()
        letters = [self.box.whole[id_] for id_ in self.box.letters.open]
        rows = [
            (one.key, one.value, one.topic, one.partition, one.offset, _AT)
            for one in letters
            if not one.is_row
        ]
        left = self.keeper.retry(letters, self._spark.createDataFrame(rows, _KAFKA))
        owners = {one.owner for one in left}
        self.box.letters.settle([one.id for one in letters if one.owner not in owners])
        return {(one.key or b"").decode(): cause for one, cause in left.items()}

    def go_back(self, batches: int) -> None:
        """The checkpoint of so many batches is back."""
        for number in range(batches, len(self.ends)):
            (self._state.checkpoint / "offsets" / str(number)).unlink()
            (self._state.checkpoint / "commits" / str(number)).unlink()
        del self.ends[batches:]
        self.restart()

    def replay(self, starts: Offsets | None = None) -> None:
        """The stream begins again at ``starts``, or at its beginning."""
        at, before = self.ends[-1], self._state.replay()
        starts = starts or {topic: dict.fromkeys(of, 0) for topic, of in at.items()}
        self._state.remember_replay(Replay("here", starts, later(before, at), 0.0))
        self._plan(len(self.ends), starts)
        self.ends.append(starts)
        self.restart()

    def forget(self) -> None:
        """The mirrors are lost."""
        shutil.rmtree(self._state.mirrors)

    def forget_all(self) -> None:
        """The whole state of the view is lost."""
        shutil.rmtree(self._state.directory)
        self._state = open_state(self._state.directory, declared(self._definition))
        self.ends.clear()

    def shown(self, *names: str) -> dict[Any, tuple[Any, ...]]:
        return {id_: tuple(row[name] for name in names) for id_, row in self.sink.values().items()}

    def waiting(self) -> dict[str, list[int]]:
        """The offsets of the letters of each parked key, by table; rows of the view have none."""
        keys = self.box.letters.keys.items()
        found = {f"{o.topic.rpartition('.')[2]}:{o.key.decode()}": [one.offset for one in of]
                 for o, of in keys}  # fmt: skip
        return found | {key.decode(): [] for key in self.box.letters.rows}

    def reached(self, _group: str, _topics: list[str], _note: str) -> Offsets:
        """As a broker."""
        return self.group

    def beginning_offsets(self, topics: list[str]) -> Offsets:
        """As a broker."""
        return {topic: dict.fromkeys(range(PARTITIONS), 0) for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[KafkaRecord]:
        """As a broker."""
        for of_topic, of_partition, offset, key, value in self.log:
            if (of_topic, of_partition) == (topic, partition) and start <= offset < end:
                yield KafkaRecord(partition, offset, 0, key, value)

    def close(self) -> None:
        """As a broker."""

    def _read(self, _spark: Any, _kafka: Any, begin: Offsets, end: Offsets) -> DataFrame:
        return self._frame(begin, end)

    def _frame(self, begin: Offsets, end: Offsets) -> DataFrame:
        rows = [
            (key, value, topic, partition, offset, _AT)
            for topic, partition, offset, key, value in self.log
            if begin.get(topic, {}).get(partition, 0) <= offset
            and offset < end.get(topic, {}).get(partition, 0)
        ]
        return self._spark.createDataFrame(rows, _KAFKA)

    def end(self) -> Offsets:
        """Where the log ends."""
        ends = {
            table_topic("shop", "public", name.partition(".")[2]): dict.fromkeys(
                range(PARTITIONS), 0
            )
            for name in self.versions
        }
        for topic, partition, offset, _, _ in self.log:
            ends[topic][partition] = offset + 1
        return ends

    def _plan(self, number: int, end: Offsets) -> None:
        for part in ("offsets", "commits"):
            file = self._state.checkpoint / part / str(number)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"v1\n{{}}\n{json.dumps(end)}\n", encoding="utf-8")


def held(view: MirroredView) -> dict[tuple[Any, ...], Any]:
    """The rows of the store, by key."""
    return {key: row for key, (_, row) in view.sink.rows.items() if row is not None}
