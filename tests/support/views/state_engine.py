"""A view of any SELECT, kept in the state database and a store as apply keeps it, step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from cdc.config import Source, Store
from cdc.events.values.encoder import encoder
from cdc.lsn import parse_lsn
from cdc.source.postgres import WIRE_OPTIONS
from cdc.source.types import load_types
from cdc.topics import table_topic
from jobs.run.views.row_store import StoredRows
from jobs.run.views.view_keeper import ViewKeeper
from jobs.sinks.contract import Sink
from jobs.sinks.redis.layout import Shape
from jobs.sinks.rows import RowSink
from jobs.sinks.stores import open_generations, open_sink
from jobs.state.batch.key_marker import KeyMarker
from jobs.state.batch.stream_offsets import begin_batch, end_batch
from jobs.state.server.connection import connect
from jobs.state.values.document_sql import DocumentSql
from jobs.state.values.value_forms import filled_text
from jobs.state.views.key_watch import key_watch
from jobs.state.views.known_columns import known_columns
from jobs.state.views.rows_query import KEY
from jobs.state.views.store_rows import form_of_store
from jobs.state.views.view_columns import described, spark_columns
from tests.support.events.memory_log import LogInMemory
from tests.support.views.kept_views import kept_view
from verification.batch_end import BatchEnds
from verification.change_window import QuietWindow, WatchWindow
from verification.parked_rows import parked_in_state
from verification.repair.from_state import RepairFromState
from verification.report import Report
from verification.scope import published_relations
from verification.select_view import SelectView, described_view
from verification.view_verification import Verification
from views.maintain.mirror import MirrorTable

NAME: Final = "shop"


@dataclass
class Change:
    """A record of a table: its key and, where it is not deleted, its row, as PostgreSQL's texts."""

    table: str
    key: tuple[str, ...]
    row: tuple[str | None, ...] | None
    lsn: int


@dataclass
class StateEngine:
    """``tables`` are in ``public``, of the source and, as mirrors, of the state database. All
    changes of them go through ``change``."""

    source_dsn: str
    state_dsn: str
    store: Store
    view: str
    sql: str
    key: Sequence[str]
    tables: Sequence[MirrorTable]
    types: str = ""
    """Statements that make types, for both databases."""
    on_step: Callable[[str], None] = lambda _: None
    changes: list[Change] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = LogInMemory(NAME, *(table.name for table in self.tables))
        self.source = psycopg.connect(self.source_dsn, autocommit=True, options=WIRE_OPTIONS)
        self.state = connect(self.state_dsn, autocommit=True)
        for conn in (self.source, self.state):
            conn.execute("set search_path = public")
            conn.execute(self.types.encode())
            for table in self.tables:
                declared = ", ".join(f"{c.name} {c.type}" for c in table.columns)
                keys = ", ".join(table.key)
                conn.execute(
                    f"create table {table.name} ({declared}, primary key ({keys}))".encode()
                )
        self.record, self.kept = kept_view(self.state, self.view, self.sql, self.key, self.tables)
        self.images = {}
        for table in self.tables:
            names = f"pg_temp.old_{table.name}", f"pg_temp.new_{table.name}"
            for name in names:
                self.state.execute(
                    f"create temporary table {name.split('.')[1]} (like {table.name}) "
                    "on commit delete rows".encode()
                )
            self.images[table.table] = names
        self.marker = KeyMarker([self.kept], self.images)
        plan, relation, types = self.kept.plan, self.kept.relation, load_types(self.state)
        known = known_columns(self.state, self.sql, self.key, plan.reads, relation, types)
        columns = described(self.state, plan.whole(relation), types, known)
        form = form_of_store(self.store, columns, tuple(self.key), None)
        sink = open_sink(self.store, self.view, None, 5.0, 1)
        assert isinstance(sink, RowSink)
        self.sink = sink
        stored = open_generations(self.store, self.view, None, 5.0)
        self.sink.prepare(spark_columns(columns), tuple(self.key))
        stored.switch(1)
        stored.close()
        id_ = DocumentSql(columns, tuple(self.key), Shape()).id(KEY)
        rows = StoredRows(self.kept, "state", self.sink, form, id_)
        self.keeper = ViewKeeper(self.kept, rows, 100, 100_000)

    def close(self) -> None:
        self.sink.close()
        self.source.close()
        self.state.close()

    def change(self, statement: str) -> None:
        """An INSERT, UPDATE or DELETE of the source, captured at once."""
        table = next(t for t in self.tables if f" {t.name} " in f" {statement} ")
        (lsn,) = self.source.execute("select pg_current_wal_insert_lsn()").fetchone() or ("",)
        shown = ", ".join(f"{table.name}.{column.name}" for column in table.columns)
        rows = self.source.execute(f"{statement} returning {shown}".encode())
        texts = self._texts(rows)
        fields = self._fields(rows)
        types = [encoder(t, m) for t, m in fields]
        made = [filled_text(t) for t, _ in fields]
        gone = statement.lower().startswith("delete")
        names = [column.name for column in table.columns]
        places = [names.index(name) for name in table.key]
        for number, row in enumerate(texts):
            image = {
                n: None if v is None else _event_value(v, e)
                for n, v, e in zip(names, row, types, strict=True)
            }
            key = {name: image[name] for name in table.key}
            source = {"commit_lsn": parse_lsn(lsn), "ordinal": number}
            event = {"before": image, "after": None, "op": "d", "source": source}
            if not gone:
                event |= {"before": None, "after": image, "op": "u"}
            topic = table_topic(NAME, "public", table.name)
            record = json.dumps(key).encode(), json.dumps(event).encode()
            self.log.records[topic].append(record)
            held = tuple(map(_mirrored, row, made))
            ids = tuple(str(held[i]) for i in places)
            self.changes.append(Change(table.name, ids, None if gone else held, parse_lsn(lsn)))

    def apply(self) -> None:
        """Apply what is captured, as one batch, and write the rows that it touched."""
        self.batch()
        while self.keeper.turn(self.state).more:
            pass
        self.log.applied = self.log.ends

    def batch(self) -> None:
        """Apply what is captured to the mirrors, folded, and find the keys that it touches."""
        last = {(change.table, change.key): change for change in self.changes}
        end = self.log.ends
        with self.state.transaction():
            held = begin_batch(self.state, {}, end)
            if held is None:
                return
            for (name, key), change in last.items():
                self._image(name, key, change)
            touched = frozenset(f"public.{name}" for name, _ in last)
            self.marker.before(self.state, touched, held.batch + 1)
            for (name, key), change in last.items():
                self._write(name, key, change)
            self.marker.after(self.state, touched, held.batch + 1)
            lsn = max((change.lsn for change in last.values()), default=0)
            end_batch(self.state, held, end, lsn, None)
        self.changes.clear()

    def _image(self, name: str, key: tuple[str, ...], change: Change) -> None:
        query = f"insert into pg_temp.old_{name} select * from {name} where {self._is(name)}"
        self.state.execute(query.encode(), key)
        if change.row is not None:
            values = ", ".join("%s" for _ in change.row)
            insert = f"insert into pg_temp.new_{name} values ({values})"
            self.state.execute(insert.encode(), change.row)

    def _write(self, name: str, key: tuple[str, ...], change: Change) -> None:
        self.state.execute(f"delete from {name} where {self._is(name)}".encode(), key)
        if change.row is not None:
            values = ", ".join("%s" for _ in change.row)
            self.state.execute(f"insert into {name} values ({values})".encode(), change.row)

    def _is(self, name: str) -> str:
        table = next(table for table in self.tables if table.name == name)
        return " and ".join(f"{part} = %s" for part in table.key)

    def _texts(self, rows: psycopg.Cursor[Any]) -> list[list[str | None]]:
        result = rows.pgresult
        assert result is not None
        found = []
        for i in range(result.ntuples):
            values = [result.get_value(i, j) for j in range(result.nfields)]
            found.append([None if v is None else bytes(v).decode() for v in values])
        return found

    def _fields(self, rows: psycopg.Cursor[Any]) -> list[Any]:
        result, types = rows.pgresult, load_types(self.source)
        assert result is not None
        return [(types[result.ftype(i)], result.fmod(i)) for i in range(result.nfields)]

    def described(self) -> SelectView:
        relations = published_relations(self.source, "none")
        return described_view(self.source, self.view, self.key, self.sql, relations)

    def verify(
        self,
        *,
        watched: bool = True,
        repair: bool = False,
        timeout_s: float = 20.0,
        sink: Sink | None = None,
    ) -> Report:
        """Source and store compared, in a session of its own with the state database."""
        view, settings = self.described(), Source(name=NAME, dsn=self.source_dsn, tables=("*",))
        with connect(self.state_dsn, autocommit=True) as conn, key_watch(conn, self.kept) as watch:
            ends = BatchEnds(self.log, view, settings)
            quiet = QuietWindow(self.log, list(self.log.records))
            mending = RepairFromState(conn, self.kept, timeout_s, self._step) if repair else None
            report = Verification(
                self.source_dsn,
                NAME,
                "none",
                view,
                self.log,
                (sink or self.sink).scan,
                timeout_s=timeout_s,
                limit=20,
                on_step=self._step,
                repair=mending,
                window=WatchWindow(watch, ends) if watched else quiet,
                parked_keys=parked_in_state(conn, self.record.id),
            ).run()
            if mending is not None:
                report.awaiting = len(mending.awaiting)
            return report

    def _step(self, said: str) -> None:
        self.steps.append(said)
        if said.startswith("waiting for"):
            self.apply()
        self.on_step(said)


def _mirrored(text: str | None, make: Callable[[bytes], bytes] | None) -> str | None:
    """As mirrors have it."""
    return text if text is None or make is None else make(text.encode()).decode()


def _event_value(text: str, encode: Callable[[bytes], bytes] | None) -> Any:
    """As events have it."""
    return json.loads(text if encode is None else encode(text.encode()))
