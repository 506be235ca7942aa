"""Single rows of a view set right from the source, in each store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis

from cdc.config import Config, Delta
from cdc.config import Redis as RedisStore
from cdc.errors import ViewError
from cdc.kafka.broker import Broker
from cdc.topics import view_group
from jobs.generations.view_locks import is_free, turn
from jobs.generations.view_state import view_directory
from jobs.sinks.stores import open_sink
from jobs.without_mirrors.replay.repair import LiveView
from jobs.without_mirrors.schemas_topic import read_versions
from tests.support.commands.deployment import Deployment
from tests.support.events.batches import Feed, delete, upsert
from tests.support.servers.stores import FEW, KINDS, Store
from verification.repair.rows import RepairFromSource
from verification.report import Report
from verification.view_verification import Verification
from views.parse.definition import parse_view
from views.spark.resolution import ResolvedView, resolve

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


@pytest.fixture(params=FEW)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return KINDS[request.param].make(request, tmp_path)


@pytest.fixture
def cache(redis_server: str) -> Store:
    """For what is the same in all stores."""
    return RedisStore(kind="redis", url=redis_server)


def resolved(deployment: Deployment, broker: Broker, table: str, key: list[str]) -> ResolvedView:
    definition = parse_view(deployment.name, "store", key, f"select * from {table}")
    versions = read_versions(broker, deployment.name, "public", table)
    return resolve(definition, list(versions.values())[-1])


@pytest.mark.timeout(600)
def test_columns_that_were_renamed_since_are_read_under_the_views_names(
    deployment: Deployment, spark: SparkSession, cache: Store, tmp_path: Path
) -> None:
    deployment.execute(KEYED, KEYED_ROWS)
    deployment.init()
    with deployment.running("capture") as capture, Broker(deployment.bootstrap) as broker:
        deployment.captured(capture)
        view = resolved(deployment, broker, "keyed", list("abcdefghi"))
        live = opened(spark, deployment, cache, view, tmp_path)
        with live.sink_closed():
            deployment.execute(
                """alter table keyed rename b to tmp; alter table keyed rename body to b;
                   alter table keyed rename tmp to body; alter table keyed rename a to "first one";
                   alter table keyed add column a int"""
            )
            report = live.verification(broker)(True)
            assert (report.missing, report.repaired, report.equal) == (40, 40, True)


@pytest.mark.timeout(600)
def test_rows_of_types_that_became_wider_since_are_those_of_the_types_it_has(
    deployment: Deployment, spark: SparkSession, cache: Store, tmp_path: Path
) -> None:
    """The view has met no event of the wider types yet."""
    deployment.execute(
        "create table wide (id int primary key, n int, d numeric(8,2), v varchar(10), s int[])",
        "insert into wide select i, i, i * 1.5, 'v' || i, array[i, i] from generate_series(1, 9) i",
    )
    deployment.init()
    with deployment.running("capture") as capture, Broker(deployment.bootstrap) as broker:
        deployment.captured(capture)
        live = opened(
            spark, deployment, cache, resolved(deployment, broker, "wide", ["id"]), tmp_path
        )
        with live.sink_closed():
            deployment.execute(
                """alter table wide alter id type bigint, alter n type bigint,
                   alter d type numeric(12,2), alter v type text, alter s type bigint[]"""
            )
            report = live.verification(broker)(True)
            assert (report.missing, report.repaired, report.equal) == (9, 9, True)


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


@pytest.mark.timeout(600)
def test_rows_that_somebody_deleted_in_redis_are_found_and_set_right(
    deployment: Deployment, spark: SparkSession, redis_server: str, tmp_path: Path
) -> None:
    """What tells that the view is there was left, so that no start of ``apply`` notices."""
    deployment.execute("create table plain (id int primary key, body text)")
    deployment.execute("insert into plain select i, 'body ' || i from generate_series(1, 20) i")
    deployment.init()
    with deployment.running("capture") as capture, Broker(deployment.bootstrap) as broker:
        deployment.captured(capture)
        view = resolved(deployment, broker, "plain", ["id"])
        live = opened(spark, deployment, RedisStore(kind="redis", url=redis_server), view, tmp_path)
        with live.sink_closed(), closing(Redis.from_url(redis_server)) as client:
            verify = live.verification(broker)
            assert verify(True).repaired == 20
            assert client.delete(*client.scan_iter(f"{view.name}@1:*")) == 20
            assert not live.sink.prepare(live.columns, view.key), "it was made just now"
            found = verify(False)
            assert (found.missing, found.different, found.extra, found.equal) == (20, 0, 0, False)
            mended = verify(True)
            assert (mended.missing, mended.repaired, mended.equal) == (20, 20, True)


@pytest.mark.timeout(600)
def test_what_somebody_wrote_by_hand_is_set_right_and_never_costs_a_row(
    deployment: Deployment, spark: SparkSession, tmp_path: Path
) -> None:
    """In Delta nothing keeps a row from standing twice, or without a position."""
    deployment.execute("create table plain (id int primary key, body text)")
    deployment.execute("insert into plain select i, 'body ' || i from generate_series(1, 20) i")
    deployment.init()
    with deployment.running("capture") as capture, Broker(deployment.bootstrap) as broker:
        deployment.captured(capture)
        view = resolved(deployment, broker, "plain", ["id"])
        live = opened(spark, deployment, Delta(kind="delta", path=str(tmp_path)), view, tmp_path)
        verify = live.verification(broker)
        assert verify(True).equal
        table = f"delta.`{tmp_path}/{view.name}`"
        spark.sql(f"update {table} set body = 'by hand', __commit_lsn = null where id = 3")
        spark.sql(f"insert into {table} (id, body) values (99, 'by hand')")
        mended = verify(True)
        assert (mended.different, mended.extra, mended.repaired) == (1, 1, 2)
        assert mended.equal

        spark.sql(f"insert into {table} select * from {table} where id = 7")
        twice = verify(True)
        assert (twice.extra, twice.repaired, twice.equal) == (1, 0, False)
        ids = [row.key[0] for row in live.sink.scan()]
        assert sorted(ids) == sorted([*range(1, 21), 7])


def test_a_batch_that_is_not_committed_counts_as_applied(
    deployment: Deployment, spark: SparkSession, cache: Store, tmp_path: Path
) -> None:
    """Its MERGE may be done; applied again it changes nothing, so nothing would mend it."""
    deployment.execute(KEYED, KEYED_ROWS)
    deployment.init()
    with Broker(deployment.bootstrap) as broker:
        view = resolved(deployment, broker, "keyed", list("abcdefghi"))
    one = opened(spark, deployment, cache, view, tmp_path)
    checkpoint = view_directory(str(tmp_path / "state"), deployment.name, view.name) / "checkpoint"
    for folder, numbers in (("offsets", (0, 1)), ("commits", (0,))):
        (checkpoint / folder).mkdir(parents=True)
        for number in numbers:
            lines = ["v1", "{}", json.dumps({"topic": {"0": 10 * number}})]
            (checkpoint / folder / str(number)).write_text("\n".join(lines))
    with one.sink_closed(), one.live.held() as applied:
        assert applied == {"topic": {0: 10}}


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
                repair=RepairFromSource(settings, self.view, broker, lambda: self.live)
                if repair
                else None,
            ).run()

        return verify


def opened(
    spark: SparkSession, deployment: Deployment, store: Store, view: ResolvedView, state: Path
) -> Opened:
    from jobs.spark.column_types import columns_of

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


def test_a_view_that_is_switched_or_built_meanwhile_is_not_written(
    spark: SparkSession, deployment: Deployment, cache: Store, tmp_path: Path
) -> None:
    deployment.execute(KEYED, KEYED_ROWS)
    deployment.init()
    with Broker(deployment.bootstrap) as broker:
        view = resolved(deployment, broker, "keyed", list("abcdefghi"))
    one = opened(spark, deployment, cache, view, tmp_path)
    directory = view_directory(str(tmp_path / "state"), deployment.name, view.name)
    with one.sink_closed():
        with turn(directory, "build", 1), pytest.raises(ViewError, match="another headwater"):
            one.live.held().__enter__()
        with one.live.held():
            assert not any(is_free(directory, which) for which in ("build", "asked", "stream"))
        assert all(is_free(directory, which) for which in ("build", "asked", "stream"))
