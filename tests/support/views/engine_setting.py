"""Views kept by the engine's own batches and keepers, without Kafka, Spark and stores.

The source is streamed by its slot, the state database is a real one, and a store is a dictionary
that takes a row only under a newer position. Steps can be made to fail, as if the process had been
killed there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from cdc.kafka.broker import Offsets
from cdc.lsn import Position
from jobs.batch.folded_rows import SCHEMA
from jobs.run.stream.applied_batch import Applied
from jobs.run.stream.batches import Batches
from jobs.run.tables.mirrored_tables import planned
from jobs.run.views.row_changes import Change
from jobs.run.views.view_keeper import ViewKeeper
from jobs.sinks.row_errors import RowsError
from jobs.state.batch.staging import Record
from jobs.state.batch.stream_offsets import Progress, add_partitions, read_progress, stream_offsets
from jobs.state.groups.tables import fill_groups, with_groups
from jobs.state.mirrors.indexes import make_indexes
from jobs.state.server.connection import Connection, connect
from jobs.state.views.rows_query import remember_sql
from jobs.state.views.view_generation import ViewGeneration, make_tables, read_key
from jobs.state.views.view_record import add_view, forget_view
from tests.support.views.mirror_tables import MirrorSetting, fold
from views.maintain import plan_view

Row = tuple[str, ...]
_TOPIC: Final = "shop.{}"


class Killed(Exception):  # noqa: N818
    """The process, at this moment."""


@dataclass(slots=True)
class DictStore:
    """A ``jobs.run.views.row_changes.RowStore``: rows as record text by key. ``dies`` after so many
    writes, -1: never."""

    rows: dict[Row, str] = field(default_factory=dict)
    positions: dict[Row, Position] = field(default_factory=dict)
    written: int = 0
    dies: int = -1

    @property
    def shown(self) -> Sequence[str]:
        return ("(m.*)::text",)

    def write(self, changes: Sequence[Change], progress: Progress) -> None:
        for change in changes:
            if self.positions.get(change.key, Position(0, 0)) >= progress.position:
                continue
            self.written += 1
            self.positions[change.key] = progress.position
            self.rows.pop(change.key, None)
            if change.digest is not None:
                self.rows[change.key] = change.shown[0]
            self.dies -= 1
            if self.dies == 0:
                raise Killed("in the middle of a write")

    def refused(self, error: RowsError, changes: Sequence[Change]) -> dict[Row, str]:
        raise AssertionError(f"{error}: {changes}")

    def close(self) -> None:
        pass


@dataclass(slots=True)
class Kept:
    """A view, its store, and its SQL for the source."""

    view: ViewGeneration
    store: DictStore
    keeper: ViewKeeper
    sql: str


class EngineSetting:
    """Tables of a source, mirrored, and views over them."""

    def __init__(self, source: str, state: str, schema: str, whole_rows: int = 100_000) -> None:
        self.mirrors = MirrorSetting(source, state)
        self.mirrors.execute(schema)
        self.mirrors.stream()
        self._state, self._whole_rows = state, whole_rows
        names = self.mirrors.source.execute(
            "select 'public.' || relname from pg_class where relkind = 'r' "
            "and relnamespace = 'public'::regnamespace order by relname"
        )
        self.labels = [name for (name,) in names.fetchall()]
        self.mirrors.fill(*self.labels)
        self.conn: Connection = self.mirrors.state
        self.views: dict[str, Kept] = {}
        self.batches = self._open()
        self._offset = 0
        add_partitions(self.conn, {_TOPIC.format(label): {0: 0} for label in self.labels})
        self.know()

    def close(self) -> None:
        self.batches.close()
        self.mirrors.close()

    def add(self, name: str, sql: str, key: Sequence[str]) -> Kept:
        """Declare a view, and fill its store with what the mirrors hold."""
        tables = {label: planned(self.mirrors.mirrors[label].table) for label in self.labels}
        plan = plan_view(name, sql, key, tables)
        record = add_view(self.conn, name, 1, sql, key, "store")
        make_indexes(self.conn, record.id, plan.indexes, self.relation)
        make_tables(self.conn, record.id, plan, self.relation)
        view = ViewGeneration(
            record.id, name, 1, plan, read_key(self.conn, record.id, plan), self.relation
        )
        view = with_groups(self.conn, view)
        fill_groups(self.conn, view)
        store = DictStore()
        keeper = ViewKeeper(view, store, 100, self._whole_rows)
        position = read_progress(self.conn).position
        keys = ", ".join(f"m.{column}::text" for column in map(_quoted, plan.key))
        query = f"select (m.*)::text, {keys} from ({plan.whole(self.relation)}) m"
        for text, *of_key in self.conn.execute(query.encode()).fetchall():
            store.rows[tuple(of_key)] = text
            store.positions[tuple(of_key)] = position
        with self.conn.transaction():
            for statement in remember_sql(view):
                self.conn.execute(statement.encode())
        self.views[name] = Kept(view, store, keeper, sql)
        self.know()
        keeper.turn(self.conn)  # a first turn writes again whatever is dirty
        return self.views[name]

    def forget_views(self) -> None:
        """Drop all views."""
        for one in self.views.values():
            forget_view(self.conn, one.view.id)
        self.views = {}
        self.know()

    def know(self) -> None:
        """Tell batches of mirrors and views, as a process that starts does."""
        topics = {_TOPIC.format(label): label for label in self.labels}
        mirrors = {label: self.mirrors.take(label) for label in self.labels}
        self.batches.know(mirrors, topics, [one.view for one in self.views.values()])

    def begin_again(self) -> None:
        """The process was killed, and starts."""
        self.batches.close()
        self.batches = self._open()
        self.know()

    def table(self, records: Sequence[Record]) -> tuple[Offsets, Offsets, pa.Table]:
        """Records as a micro-batch of the stream has them."""
        begin = stream_offsets(self.conn)
        end = {topic: dict(of_topic) for topic, of_topic in begin.items()}
        for record in records:
            end[_TOPIC.format(record.table)][0] += 1
        return begin, end, batch_rows(fold(records), _TOPIC.format)

    def every(self, records: Sequence[Record]) -> pa.Table:
        """The same as every change, with what is known of values left out."""
        before: dict[tuple[str, str | None], list[Record]] = {}
        rows = []
        for record in sorted(records, key=lambda one: (one.commit_lsn, one.ordinal)):
            earlier = before.setdefault((record.table, record.key), [])
            earlier.append(record)
            rows.append(fold(earlier)[-1] if record.unchanged else record)
        return batch_rows(rows, _TOPIC.format)

    def apply(self, records: Sequence[Record]) -> Applied | None:
        """One micro-batch into the mirrors."""
        return self.batches.apply(*self.table(records))

    def keep(self, names: Iterable[str] = ()) -> None:
        """Turns of views until nothing is dirty."""
        for name in names or self.views:
            while self.views[name].keeper.turn(self.conn).more:
                pass

    def step(self) -> None:
        """All changes of the source since the last time as one batch, then all turns."""
        self.apply(self.mirrors.changes())
        self.keep()

    def expected(self, name: str) -> Counter[str]:
        """The view's rows as the source computes them, as record text."""
        with self.mirrors.as_client() as session:
            query = f"select (m.*)::text from ({self.views[name].sql}) m"
            return Counter(text for (text,) in session.execute(query.encode()).fetchall())

    def check(self, names: Iterable[str] = ()) -> None:
        """Every view is what its SQL gives on the source now."""
        for name in names or self.views:
            held = Counter(self.views[name].store.rows.values())
            assert held == self.expected(name), name

    def relation(self, label: str) -> str:
        return self.mirrors.mirrors[label].table.relation

    def _open(self) -> Batches:
        return Batches(lambda: connect(self._state, autocommit=True), 100)


def batch_rows(records: Sequence[Record], topic: Callable[[str], str]) -> pa.Table:
    """Folded records as a micro-batch has them; ``topic`` tells that of ``schema.table``."""
    return pa.Table.from_pylist([_row(record, topic) for record in records], schema=SCHEMA)


def _row(record: Record, of_table: Callable[[str], str]) -> dict[str, Any]:
    topic, partition, offset = record.record.rsplit("-", 2)
    is_delete = record.op == "d"
    return {
        "topic": of_table(record.table),
        "partition": int(partition),
        "offset": int(offset),
        "key": record.key,
        "op": record.op,
        "commit_lsn": record.commit_lsn,
        "ordinal": record.ordinal,
        "schema_id": record.schema_id,
        "committed_us": 0,
        "before": record.image if is_delete else None,
        "after": None if is_delete else record.image,
        "unchanged": list(record.unchanged),
        "read_lsn": record.read_lsn,
        "records": 1,
        "oldest_us": 0,
        "cause": None if topic else "",
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def split(records: Sequence[Record], generator: random.Random) -> list[list[Record]]:
    """A stretch of records as batches of some of them."""
    found: list[list[Record]] = [[]]
    for record in records:
        if found[-1] and generator.random() < 0.3:
            found.append([])
        found[-1].append(record)
    return found
