"""A table with a column of most types, and a view of it in memory.

The view is what the topic says (``tests.support.commands.deployment.fold``), so a test can bend it,
and it is applied when the verification waits for it, so a test decides what happens in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cdc.config import Source
from cdc.kafka.broker import Broker
from cdc.lsn import Position
from cdc.topics import table_topic, view_group
from jobs.sinks.contract import ViewRow
from jobs.sinks.key_names import Keys
from jobs.without_mirrors.schemas_topic import read_versions
from tests.support.commands.deployment import Deployment
from verification.repair.rows import RepairFromSource, Writable
from verification.report import Report
from verification.view_verification import Verification
from views.parse.definition import parse_view
from views.spark.resolution import ResolvedView, resolve

TABLE = """
create table things (
    id bigint primary key, name text, price numeric(12,4), weight real, size double precision,
    ok boolean, day date, at timestamp, seen timestamptz, data bytea, tag uuid, doc jsonb,
    amount numeric, clock time, span interval, flags bit(5), host inet, mood mood, code char(5),
    numbers int[], words text[][], amounts numeric(8,2)[], moods mood[], stamps timestamptz[])
"""
TYPES = "create type mood as enum ('good', 'so, so', 'bad')"
ROWS = """
insert into things
select i, 'thing ' || i, i * 1.5, i / 3.0, i / 7.0, i % 2 = 0, date '2024-02-28' + i,
    timestamp '2024-02-29 12:00:00.5' + i * interval '1 minute', now() - i * interval '1 day',
    decode(md5(i::text), 'hex'), md5(i::text)::uuid, jsonb_build_object('n', i),
    i * 1.10, (i * interval '1.5 s')::time, i * interval '1 day 2 hours', i::bit(5),
    '192.168.0.1', 'so, so', 'a', array[i, null, 2], array[['a', 'b"'], [null, 'c,']],
    array[1.50, i], array['bad', 'so, so']::mood[], array[now(), null]
from generate_series(1, 300) as i
"""
ODD = """
insert into things (id, name, price, weight, size, ok, day, at, seen, data, tag, doc) values
    (1001, null, null, null, null, null, null, null, null, null, null, null),
    (1002, '', 'NaN', 'NaN', '-Infinity', true, null, null, null, '', null, 'null'),
    (1004, 'edges', 0, 0, 0, true, '0044-03-15 BC', 'infinity', '294276-12-31', null, null, '1'),
    (1003, 'Größe', -0.0000, 0.1, 1e-300, false, '0001-01-01', null, null, '\\x00ff', null, '[]')
"""


@dataclass
class MemoryView:
    """The topic of ``things``, folded whenever ``apply`` is called."""

    deployment: Deployment
    broker: Broker
    bend: Callable[[dict[int, ViewRow]], None] = lambda _rows: None
    on_step: Callable[[str], None] = lambda _step: None
    applying: bool = True
    rows: dict[int, ViewRow] = field(default_factory=dict)
    table: str = "things"
    asked: list[set[object] | None] = field(default_factory=list)
    """The ids that the view's rows were asked for by, scan after scan; None: for all."""

    @property
    def topic(self) -> str:
        return table_topic(self.deployment.name, "public", self.table)

    @property
    def name(self) -> str:
        return f"{self.table}_view"

    def apply(self) -> None:
        ends = self.broker.end_offsets([self.topic])
        rows: dict[int, ViewRow] = {}
        for event in self.deployment.events(self.table):
            if event.value is None or event.key is None:
                continue
            number, after = event.key["id"], event.value["after"]
            rows.pop(number, None)
            if after is not None:
                rows[number] = ViewRow((number,), Position(*event.position), after)
        self.rows = rows
        self.bend(self.rows)
        self.broker.commit_group(view_group(self.name), ends)

    def step(self, said: str) -> None:
        if said.startswith("waiting for") and self.applying:
            self.apply()
        self.on_step(said)

    def verify(
        self, timeout_s: float = 120, limit: int = 10, repair: Writable | None = None
    ) -> Report:
        settings = Source(name=self.deployment.name, dsn=self.deployment.dsn, tables=("public.*",))
        return Verification(
            self.deployment.dsn,
            self.deployment.name,
            f"headwater_{self.deployment.name}",
            view := self.resolved(),
            self.broker,
            self.scan,
            timeout_s=timeout_s,
            limit=limit,
            on_step=self.step,
            repair=RepairFromSource(settings, view, self.broker, lambda: repair)
            if repair
            else None,
        ).run()

    def scan(self, keys: Keys | None = None) -> Iterator[ViewRow]:
        self.asked.append(None if keys is None else {id_ for (id_,) in keys})
        if keys is None:
            return iter(self.rows.values())
        return (self.rows[id_] for (id_,) in keys if id_ in self.rows)  # as it leads to a place

    def resolved(self) -> ResolvedView:
        sql = "select t.*, name || '!' as loud from things as t where name is null or name <> 'no';"
        definition = parse_view(self.name, "store", ["id"], sql)
        versions = read_versions(self.broker, self.deployment.name, "public", self.table)
        return resolve(definition, list(versions.values())[-1])


def add_loud(rows: dict[int, ViewRow]) -> None:
    """What the view's SQL computes."""
    for row in rows.values():
        name = row.values["name"]
        row.values["loud"] = None if name is None else f"{name}!"
