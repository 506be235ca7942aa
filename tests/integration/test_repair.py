"""Single rows of a view set right from the source, in each store, and what may come between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc.config import Config
from cdc.errors import ViewError
from cdc.kafka.broker import Broker, Offsets
from cdc.lsn import Position
from cdc.topics import view_group
from jobs.repairing import LiveView
from jobs.sinks import open_sink
from jobs.state import view_directory
from jobs.turn import is_free, turn
from jobs.versions import read_versions
from tests.batches import Feed, delete, upsert
from tests.deployment import Deployment
from tests.stores import Store
from tests.things import ODD, ROWS, TABLE, TYPES, MemoryView, add_loud
from verification.repair import Repair
from verification.verify import Report, Verification
from views.definition import parse_view
from views.resolve import ResolvedView, resolve
from views.tables import TableVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYED = """
create table keyed (
    a int, b text, c numeric, d timestamptz, e date, f uuid, g bytea, h boolean, i numeric(8,2),
    body text, primary key (a, b, c, d, e, f, g, h, i))
"""
KEYED_ROWS = """
insert into keyed select i, 'k"' || i || E'\\t\\\\', i * 1.10, '2024-01-01'::timestamptz
    + i * interval '1 day 0.5 s', date '2024-02-28' + i, md5(i::text)::uuid,
    decode(md5(i::text), 'hex'), i % 2 = 0, i, 'body ' || i from generate_series(1, 40) i
"""


@pytest.fixture
def deployment(tmp_path: Path, source_name: str, database: str, kafka: str) -> Deployment:
    return Deployment(tmp_path, source_name, database, kafka)


def resolved(deployment: Deployment, broker: Broker, table: str, key: list[str]) -> ResolvedView:
    definition = parse_view(deployment.name, "store", key, f"select * from {table}")
    versions = read_versions(broker, deployment.name, "public", table)
    return resolve(definition, list(versions.values())[-1])


@pytest.mark.timeout(600)
def test_a_row_missing_one_bent_and_one_too_many_are_set_right_in_every_store(
    deployment: Deployment, spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    """The key has a column of every kind that stores write in ways of their own."""
    deployment.execute(KEYED, KEYED_ROWS)
    deployment.init()
    with deployment.running("capture") as capture, Broker(deployment.bootstrap) as broker:
        deployment.captured(capture)
        view = resolved(deployment, broker, "keyed", list("abcdefghi"))
        live = opened(spark, deployment, store, view, tmp_path)
        with live.sink_closed():
            verify = live.verification(broker)
            report = verify(True)
            assert (report.missing, report.repaired, report.equal) == (40, 40, True)

            scanned = {row.key: row for row in live.sink.scan()}
            keys = sorted(scanned, key=lambda key: key[0])
            gone, bent = scanned[keys[6]].values, scanned[keys[7]].values
            at = scanned[keys[6]].position.commit_lsn + 1
            feed = Feed(spark, live.sink, live.columns, view.name)
            feed.apply(delete(at, **{name: gone[name] for name in view.key}))
            feed.apply(upsert(at, **{**bent, "body": "wrong"}))
            feed.apply(upsert(at, **{**bent, "a": 9000, "body": "nobody's"}))

            found = verify(False)
            assert (found.missing, found.different, found.extra) == (1, 1, 1)
            assert (found.repaired, found.equal) == (0, False)
            mended = verify(True)
            assert (mended.missing, mended.different, mended.extra) == (1, 1, 1)
            assert (mended.repaired, mended.equal, mended.rounds) == (3, True, 2)
            assert verify(False).equal
            now = {row.key: row for row in live.sink.scan()}
            assert now[keys[7]].values["body"] == "body 8"
            assert now[keys[0]] == scanned[keys[0]], "what was right is not written"


@dataclass
class Opened:
    """A view in a store of its own, to be repaired."""

    live: LiveView
    sink: Any
    columns: Any
    deployment: Deployment
    view: ResolvedView

    @contextmanager
    def sink_closed(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.sink.close()

    def verification(self, broker: Broker) -> Any:
        settings = Config.model_validate(
            {
                "source": {"name": self.deployment.name, "dsn": self.deployment.dsn,
                           "tables": ["public.*"]},
                "kafka": {"bootstrap_servers": self.deployment.bootstrap},
            }
        ).source  # fmt: skip

        def verify(repair: bool) -> Report:
            table = self.view.definition.table
            topic = f"{self.deployment.name}.public.{table}"
            ends = broker.end_offsets([topic])
            broker.commit_group(view_group(self.view.name), ends)
            return Verification(
                self.deployment.dsn,
                self.deployment.name,
                settings.publication_name,
                self.view,
                broker,
                self.sink.scan,
                timeout_s=120,
                limit=10,
                repair=Repair(settings, broker, lambda: self.live) if repair else None,
            ).run()

        return verify


def opened(
    spark: SparkSession, deployment: Deployment, store: Store, view: ResolvedView, state: Path
) -> Opened:
    from jobs.columns import columns_of

    config = Config.model_validate(
        {
            "source": {"name": deployment.name, "dsn": deployment.dsn, "tables": ["public.*"]},
            "kafka": {"bootstrap_servers": deployment.bootstrap},
            "stores": {"store": store.model_dump()},
            "apply": {"state": str(state / "state"), "retry_s": 30},
        }
    )
    sink = open_sink(store, view.name, spark)
    columns = columns_of(view)
    sink.prepare(columns, view.key)
    return Opened(LiveView(spark, config, view, sink, 1), sink, columns, deployment, view)


@dataclass
class MemoryLive:
    """A view in memory, as ``Repair`` writes it. ``meanwhile`` comes before it is held."""

    memory: MemoryView
    written: list[tuple[int, list[bytes], list[object]]] = field(default_factory=list)
    meanwhile: list[str] = field(default_factory=list)

    @contextmanager
    def held(self) -> Iterator[Offsets]:
        if self.meanwhile:
            self.memory.deployment.execute(*self.meanwhile)
            self.meanwhile.clear()
            self.memory.deployment.captured()
            self.memory.apply()
        yield self.memory.broker.end_offsets([self.memory.topic])

    def write(
        self,
        lsn: int,
        version: TableVersion,
        events: Sequence[tuple[bytes, bytes]],
        gone: Sequence[Mapping[str, object]],
    ) -> None:
        assert version.table == "things"
        self.written.append((lsn, [key for key, _ in events], [key["id"] for key in gone]))
        self.memory.bend = add_loud
        self.memory.apply()


@pytest.fixture
def memory(deployment: Deployment) -> Iterator[MemoryView]:
    deployment.execute(TYPES, TABLE, ROWS, ODD)
    deployment.init()
    with deployment.running("capture") as capture, Broker(deployment.bootstrap) as broker:
        deployment.captured(capture)
        yield MemoryView(deployment, broker, bend=add_loud)


def test_what_the_stream_brought_since_is_left_to_the_stream(memory: MemoryView) -> None:
    """A store that forgets deleted rows would take row 7 back."""

    def bend(rows: dict[int, Any]) -> None:
        add_loud(rows)
        rows.pop(7, None)
        rows[8].values["price"] = "0"
        rows[9000] = rows[9]._replace(key=(9000,), position=Position(1, 0),
                                      values={**rows[9].values, "id": 9000})  # fmt: skip

    memory.bend = bend
    live = MemoryLive(memory, meanwhile=["delete from things where id = 7"])
    report = memory.verify(repair=live)
    (first,) = live.written[:1]
    assert first[1] == [b'{"id":8}']
    assert [gone for _, _, gone in live.written if gone] == [[9000]]
    assert (report.missing, report.different, report.extra) == (1, 1, 1)
    assert (report.repaired, report.equal) == (3, True)


def test_what_cannot_be_set_right_stays_wrong(memory: MemoryView) -> None:
    class Broken(MemoryLive):
        def write(self, *_: Any) -> None:
            """Says nothing, does nothing."""

    def bend(rows: dict[int, Any]) -> None:
        add_loud(rows)
        rows[8].values["price"] = "0"

    memory.bend = bend
    report = memory.verify(repair=Broken(memory))
    assert (report.different, report.repaired, report.equal) == (1, 0, False)


def test_a_view_that_is_switched_or_built_meanwhile_is_not_written(
    spark: SparkSession, deployment: Deployment, store: Store, tmp_path: Path
) -> None:
    deployment.execute(KEYED, KEYED_ROWS)
    deployment.init()
    with Broker(deployment.bootstrap) as broker:
        view = resolved(deployment, broker, "keyed", list("abcdefghi"))
    one = opened(spark, deployment, store, view, tmp_path)
    directory = view_directory(str(tmp_path / "state"), deployment.name, view.name)
    with one.sink_closed():
        with turn(directory, "build", 1), pytest.raises(ViewError, match="another headwater"):
            one.live.held().__enter__()
        with one.live.held():
            assert not any(is_free(directory, which) for which in ("build", "asked", "stream"))
        assert all(is_free(directory, which) for which in ("build", "asked", "stream"))
