"""A change of one row in a group of a million: the batch that takes it, and the group's row made.

Through the engine's own batch and keeper, over mirrors in a state database of its own, without
Kafka, Spark and a store: what the engine does for the change, and nothing around it.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa

from benchmarks.environment import Setting
from benchmarks.report.metrics import ROWS
from cdc.config import Source
from cdc.source.errors import translated
from jobs.batch.folded_rows import SCHEMA
from jobs.run.stream.batches import Batches
from jobs.run.tables.mirrored_tables import planned
from jobs.run.views.row_changes import Change
from jobs.run.views.view_keeper import ViewKeeper
from jobs.sinks.row_errors import RowsError
from jobs.state.batch.stream_offsets import (
    Progress,
    add_partitions,
    advance,
    read_progress,
    stream_offsets,
)
from jobs.state.groups.tables import fill_groups, with_groups
from jobs.state.mirrors.fill import fill
from jobs.state.mirrors.indexes import make_indexes
from jobs.state.mirrors.mirror_record import MirrorRecord, read_mirrors
from jobs.state.mirrors.mirror_versions import batch_mirror
from jobs.state.server.connection import Connection, connect
from jobs.state.server.migration import migrate
from jobs.state.views.rows_query import remember_sql
from jobs.state.views.view_generation import ViewGeneration, make_tables, read_key
from jobs.state.views.view_record import add_view, note_loaded
from views.maintain import plan_view

_SOURCE, _STATE = "groups", "group_state"
_LABEL, _TOPIC = "public.payments", "groups.public.payments"
_CHANGES: Final = 60
_CHANGES_OF_ROWS: Final = 5
_TABLE: Final = """
create table payments (
    id bigint primary key, account int not null, amount numeric(10,2) not null, settled boolean
)"""
_ROWS: Final = """
insert into payments select n, 1, (n % 10000) / 100.0, n % 3 = 0 from generate_series(1, {rows}) n
"""
_SQL: Final = """
select account, count(*) as payments, sum(amount) as total, avg(amount) as mean,
       max(amount) as largest, count(*) filter (where settled) as settled
from payments group by account
"""


class _NoStore:
    """A ``jobs.run.views.row_changes.RowStore`` that counts rows."""

    written = 0

    @property
    def shown(self) -> Sequence[str]:
        return ("(m.*)::text",)

    def write(self, changes: Sequence[Change], progress: Progress) -> None:  # noqa: ARG002
        self.written += len(changes)

    def refused(self, error: RowsError, _changes: Sequence[Change]) -> dict[tuple[str, ...], str]:
        raise error

    def close(self) -> None:
        pass


class _Databases(NamedTuple):
    source: str
    state: str


def measure_group_change(setting: Setting) -> dict[str, float]:
    """``group_change_ms`` and, of the same group made of its rows, ``group_change_rows_ms``."""
    rows = setting.scaled(ROWS, 10_000)
    with _databases(setting) as found, closing(connect(found.state, autocommit=True)) as conn:
        setting.watch("filling a group", 0)
        _fill(conn, found.source, rows)
        figures = {}
        for name, by_change, changes in (
            ("group_change_ms", True, _CHANGES),
            ("group_change_rows_ms", False, _CHANGES_OF_ROWS),
        ):
            setting.watch("changing rows of a group", 0.5)
            figures[name] = _Group(conn, found.state, rows, by_change).changed_ms(changes)
    return figures


@contextmanager
def _databases(setting: Setting) -> Iterator[_Databases]:
    with setting.connect() as conn, translated("creating databases of groups"):
        for name in (_SOURCE, _STATE):
            conn.execute(f"create database {name}".encode())
    try:
        places = (urlsplit(setting.dsn)._replace(path=f"/{name}") for name in (_SOURCE, _STATE))
        yield _Databases(*(place.geturl() for place in places))
    finally:
        with setting.connect() as conn, translated("dropping databases of groups"):
            for name in (_SOURCE, _STATE):
                conn.execute(f"drop database {name} with (force)".encode())


def _fill(conn: Connection, source: str, rows: int) -> None:
    """A table, and its mirror."""
    with closing(connect(source, autocommit=True)) as session:
        session.execute(b"set search_path = public")
        session.execute(_TABLE.encode())
        session.execute(_ROWS.format(rows=rows).encode())
        session.execute(b"vacuum analyze payments")
        session.execute(f"create publication headwater_{_SOURCE} for all tables".encode())
        row = session.execute(b"select 'payments'::regclass::oid::bigint").fetchone()
        assert row is not None, "the table is there"
    migrate(conn)
    (filled,) = fill(conn, Source(name=_SOURCE, dsn=source, tables=("public.*",)), [row[0]])
    add_partitions(conn, {_TOPIC: {0: 0}})
    advance(conn, filled.lsn)


@dataclass(slots=True)
class _Group:
    """The view of a group, kept by the change or made of its rows."""

    conn: Connection
    state: str
    rows: int
    by_change: bool

    def changed_ms(self, changes: int) -> float:
        """Of a change, from the batch that has it to the row that a store is given: the median."""
        record = read_mirrors(self.conn)[_LABEL]
        view, store = self._view(record), _NoStore()
        keeper = ViewKeeper(view, store, 100, 100)
        keeper.turn(self.conn)
        took = []
        with closing(Batches(lambda: connect(self.state, autocommit=True), 100)) as batches:
            batches.know({_LABEL: batch_mirror(record, {})}, {_TOPIC: _LABEL}, [view])
            for _ in range(changes + 3):
                began = time.monotonic()
                begin = stream_offsets(self.conn)
                end = {_TOPIC: {0: begin[_TOPIC][0] + 1}}
                batches.apply(begin, end, self._change(record, begin[_TOPIC][0]))
                keeper.turn(self.conn)
                took.append((time.monotonic() - began) * 1000)
        assert store.written == changes + 3, "each change gives the group another sum"
        return statistics.median(took[3:])  # the first ones plan

    def _view(self, record: MirrorRecord) -> ViewGeneration:
        conn, name = self.conn, "by_change" if self.by_change else "of_rows"
        plan = plan_view(name, _SQL, ("account",), {_LABEL: planned(record.table)})
        added = add_view(conn, name, 1, _SQL, ("account",), "store")
        make_indexes(conn, added.id, plan.indexes, lambda _: record.table.relation)
        make_tables(conn, added.id, plan, lambda _: record.table.relation)
        key = read_key(conn, added.id, plan)
        view = ViewGeneration(added.id, name, 1, plan, key, lambda _: record.table.relation)
        if self.by_change:
            view = with_groups(conn, view)
            assert view.groups is not None, "its types allow it"
            fill_groups(conn, view)
        for statement in remember_sql(view):
            conn.execute(statement.encode())
        note_loaded(conn, added.id)
        return view

    def _change(self, record: MirrorRecord, offset: int) -> pa.Table:
        """A batch of one update, as it is folded."""
        key = 1 + (offset * 7919) % self.rows
        image = {"id": key, "account": 1, "amount": f"{offset + 200}.25", "settled": True}
        row = {
            "topic": _TOPIC,
            "partition": 0,
            "offset": offset,
            "key": json.dumps({"id": key}),
            "op": "u",
            "commit_lsn": read_progress(self.conn).lsn + 8,
            "ordinal": 1,
            "schema_id": record.table.schema_id,
            "committed_us": 0,
            "after": json.dumps(image),
            "unchanged": [],
            "records": 1,
            "oldest_us": 0,
        }
        return pa.Table.from_pylist([row], schema=SCHEMA)
