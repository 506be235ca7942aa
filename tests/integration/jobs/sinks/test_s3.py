"""Views in Delta tables in S3: small batches by delta-rs, large ones by Spark, on a real server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from py4j.protocol import Py4JJavaError

from cdc.config import Delta, View
from cdc.errors import HeadwaterError, RetryableError, SinkError
from cdc.lsn import Position
from jobs.batch.thresholds import FEW_ROWS
from jobs.sinks.contract import Sink
from jobs.sinks.delta.bucket import ask_bucket
from jobs.sinks.delta.delta_reader import table_at
from jobs.sinks.stores import open_generations, open_sink
from jobs.spark.object_store import HADOOP
from stack.guardian import Guardian
from tests.support.commands.deployment import Deployment, done
from tests.support.events.batches import Feed, batch_rows, delete, upsert
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.s3 import KEY, REGION, S3, SECRET, s3_in
from tests.support.servers.stores import LSN, items
from tests.support.servers.web_identity import WebIdentity, rights_in, web_identity
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITEMS = items()
NOWHERE = "http://127.0.0.1:1"
PROPERTIES = {
    "AWS_WEB_IDENTITY_TOKEN_FILE": "aws.webIdentityTokenFile",
    "AWS_ROLE_ARN": "aws.roleArn",
    "AWS_ROLE_SESSION_NAME": "aws.roleSessionName",
    "AWS_REGION": "aws.region",
    "AWS_ENDPOINT_URL_STS": "aws.endpointUrlSts",
    "AWS_PROFILE": "aws.profile",
    "AWS_EC2_METADATA_DISABLED": "aws.disableEc2Metadata",
}
"""What Java may be told by, where it runs already."""


@pytest.fixture(scope="module")
def identity(guardian: Guardian, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebIdentity]:
    home = tmp_path_factory.mktemp("iam")
    with web_identity(home / "kept", guardian, rights_in("role")) as made:
        yield made


@pytest.fixture(scope="module")
def s3(
    spark: SparkSession,
    guardian: Guardian,
    identity: WebIdentity,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[S3]:
    """A server, and a Spark that finds its credentials where people have them: in a profile."""
    context: Any = spark.sparkContext
    with (
        s3_in(tmp_path_factory.mktemp("s3"), guardian, identity.socket) as server,
        pytest.MonkeyPatch.context() as patched,
    ):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            patched.delenv(name, raising=False)
        patched.setenv("AWS_SHARED_CREDENTIALS_FILE", str(server.credentials))
        context._jvm.System.setProperty("aws.sharedCredentialsFile", str(server.credentials))
        hadoop = context._jsc.hadoopConfiguration()
        for name, value in server.place.items():
            hadoop.set(f"fs.s3a.{name}", value)
        yield server


@pytest.fixture(scope="module")
def lake(s3: S3) -> Delta:
    return Delta(kind="delta", path=f"{s3.bucket('lake')}/views", small_files=2)


def opened(spark: SparkSession, store: Delta, view: str, **more: Any) -> Feed:
    retry_s, number = more.pop("retry_s", 20.0), more.pop("number", None)
    declared = View(store="lake", key=("id",), sql="-", **more)
    sink: Sink = open_sink(store, view, spark, retry_s, number, declared, declared.history)
    sink.prepare(ITEMS, ("id",))
    return Feed(spark, sink, ITEMS, view)


def commits(store: Delta, view: str) -> list[tuple[str, str]]:
    """Of each version, oldest first: what made it, and whether delta-rs or Spark."""
    history = table_at(f"{store.path}/{view}").history()
    return [(one["operation"], str(one.get("engineInfo"))[:8]) for one in reversed(history)]


def large(feed: Feed, *changes: Any) -> None:
    """A batch as it is written when many keys were touched."""
    feed.number += 1
    rows = batch_rows(feed.spark, ITEMS, changes)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("jobs.sinks.delta.small_merge.FEW_BYTES", 0)
        feed.sink.apply(rows, feed.batch(feed.number, FEW_ROWS + 1))


def test_small_and_large_batches_share_a_table_whose_files_are_looked_after(
    spark: SparkSession, lake: Delta
) -> None:
    store = lake.model_copy(update={"optimize_batches": 6})
    with structlog.testing.capture_logs() as logs:
        feed = opened(spark, store, "items")
        feed.apply(*(upsert(LSN, i, id=i, name="a") for i in range(20)))
        large(feed, upsert(LSN + 8, id=1, name="b"), upsert(LSN - 8, id=2, name="old"))
        for i in range(100, 103):  # a file each
            feed.apply(upsert(LSN + 8, id=i, name="c"))
        feed.apply(upsert(LSN + 16, id=3, unchanged=("name",)), delete(LSN + 16, id=4))
    said = [one["event"] for one in logs]
    assert "upkeep_failed" not in said, logs
    assert {"table_compacted", "table_vacuumed"} <= {*said}
    feed.replay(2, upsert(LSN + 8, id=1, name="b"))
    feed.truncate(Position(LSN, 10))
    expected = (
        dict.fromkeys(range(10, 20), "a") | {1: "b", 3: "a"} | dict.fromkeys(range(100, 103), "c")
    )
    assert feed.values("name") == expected
    made = commits(lake, "items")
    assert made[1:3] == [("MERGE", "delta-rs"), ("MERGE", "Apache-S")]
    assert ("OPTIMIZE", "Apache-S") in made
    rows = spark.read.format("delta").load(f"{lake.path}/items").collect()
    assert {row.id: row.name for row in rows} == expected


def test_generations_are_switched_left_come_back_to_and_dropped(
    spark: SparkSession, lake: Delta, s3: S3
) -> None:
    generations = open_generations(lake, "gen", spark)

    def load(number: int, name: str) -> None:
        rows = batch_rows(spark, ITEMS, (upsert(LSN, i, id=i, name=name) for i in range(5)))
        generations.load(number, rows, ITEMS, ("id",))

    def names() -> set[Any]:
        return set(opened(spark, lake, "gen").values("name").values())

    load(1, "first")
    assert generations.live() is None
    generations.switch(1)
    assert names() == {"first"}
    load(2, "second")
    opened(spark, lake, "gen", number=2).apply(upsert(LSN + 8, id=1, name="streamed"))
    assert names() == {"first"}
    before = generations.live()
    assert before is not None
    generations.switch(2)
    assert names() == {"second", "streamed"}
    generations.switch(1, before.mark)
    assert names() == {"first"}
    generations.drop(2)
    generations.drop(1)
    assert generations.live() is None
    assert not [one for one in (s3.buckets / "lake/views").glob("gen*/**/*") if one.is_file()]


@pytest.mark.parametrize("history", ["log", "scd2"])
def test_history_is_kept(spark: SparkSession, lake: Delta, history: str) -> None:
    feed = opened(spark, lake, history, history=history)
    feed.apply(upsert(LSN, id=1, name="a"), upsert(LSN, 2, id=2, name="b"))
    feed.apply(upsert(LSN + 8, id=1, name="c"), delete(LSN + 8, 2, id=2))
    feed.restart()
    feed.apply(upsert(LSN + 8, id=1, name="c"))
    assert feed.values("name") == {1: "c"}
    rows = spark.read.format("delta").load(f"{lake.path}/{history}").collect()
    assert len(rows) == {"log": 4, "scd2": 3}[history]


def won_of(tries: Sequence[Callable[[], None]]) -> int:
    """How many of some commits of a version succeed, which are all made at once."""
    begin = threading.Barrier(len(tries))

    def attempt(commit: Callable[[], None]) -> bool:
        begin.wait()
        try:
            commit()
        except CommitFailedError:
            return False
        except Py4JJavaError as error:
            if "java.nio.file.FileAlreadyExistsException" not in str(error.java_exception):
                raise
            return False
        return True

    with ThreadPoolExecutor(len(tries)) as pool:
        return sum(pool.map(attempt, tries))


def test_of_two_writers_of_a_version_one_fails(spark: SparkSession, lake: Delta) -> None:
    """Spark's commits and those of delta-rs: at the same time, and where each has read before."""
    path = f"{lake.path}/raced"
    context: Any = spark.sparkContext
    hadoop, jvm = context._jsc.hadoopConfiguration(), context._jvm
    store = jvm.headwater.S3LogStore(hadoop)
    row = batch_rows(spark, ITEMS, [upsert(LSN, id=1, name="a")]).select("id", "name")
    row.write.format("delta").save(path)
    arrow = row.toArrow()

    def by_spark(version: int, who: int) -> None:
        # Each has content of its own: a version that holds what is written counts as written.
        lines = jvm.java.util.List.of(f'{{"commitInfo":{{"timestamp":{who},"operation":"raced"}}}}')
        place = jvm.org.apache.hadoop.fs.Path(f"{path}/_delta_log/{version:020}.json")
        store.write(place, lines.iterator(), False, hadoop)

    def by_delta_rs(table: DeltaTable) -> None:
        never = CommitProperties(max_commit_retries=0)
        write_deltalake(table, arrow, mode="append", commit_properties=never)

    for turn in range(8):
        tables = [table_at(path), table_at(path)]
        version = tables[0].version() + 1
        of_spark = [partial(by_spark, version, who) for who in (1, 2)]
        of_delta_rs = [partial(by_delta_rs, one) for one in tables] if turn % 2 else []
        assert won_of([*of_delta_rs, *of_spark]) == 1
        assert table_at(path).version() == version
    stale = table_at(path)
    row.write.format("delta").mode("append").save(path)
    with pytest.raises(CommitFailedError):
        by_delta_rs(stale)


def test_what_s3_refuses_is_one_line(s3: S3, spark: SparkSession) -> None:
    context: Any = spark.sparkContext
    hadoop = context._jsc.hadoopConfiguration()
    for name in ("away", "denied"):
        s3.bucket(name)
    hadoop.set("fs.s3a.bucket.away.endpoint", NOWHERE)
    hadoop.set("fs.s3a.bucket.denied.access.key", KEY)
    hadoop.set("fs.s3a.bucket.denied.secret.key", "wrong")
    said: dict[str, HeadwaterError] = {}
    for name in ("away", "denied", "missing"):
        store = Delta(kind="delta", path=f"s3a://{name}/views")
        with pytest.raises(HeadwaterError) as found:
            opened(spark, store, "v", retry_s=0.0)
        said[name] = found.value
    assert isinstance(said["denied"], SinkError)
    assert isinstance(said["missing"], SinkError)
    assert "no answer from S3" in said["away"].message
    assert "access denied" in said["denied"].message
    assert "the bucket does not exist" in said["missing"].message
    assert all("\n" not in one.message for one in said.values())


@contextmanager
def in_a_pod(spark: SparkSession, environ: Mapping[str, str]) -> Iterator[None]:
    """Java as with ``environ``, and with no other credentials."""
    context: Any = spark.sparkContext
    given = {**environ, "AWS_PROFILE": "none", "AWS_EC2_METADATA_DISABLED": "true"}
    system = context._jvm.System
    for name, value in given.items():
        system.setProperty(PROPERTIES[name], value)
    try:
        yield
    finally:
        for name in given:
            system.clearProperty(PROPERTIES[name])


def test_web_identity_gives_credentials_whatever_file_system_was_closed(
    s3: S3, identity: WebIdentity, spark: SparkSession
) -> None:
    """When two threads open one, Hadoop closes one of the two."""
    store = Delta(kind="delta", path=f"{s3.bucket('role')}/views")
    context: Any = spark.sparkContext
    system = context._jvm.org.apache.hadoop.fs.FileSystem
    place = context._jvm.java.net.URI(store.path)
    with in_a_pod(spark, identity.environ("pod")):
        system.newInstance(place, context._jsc.hadoopConfiguration()).close()
        feed = opened(spark, store, "v")
        feed.apply(upsert(LSN, id=1, name="a"))
        assert feed.values("name") == {1: "a"}
        at = f"{store.path}/v"
        assert table_at(at) is not table_at(at)  # each has the credentials of its moment
    assert identity.sessions() == {"pod"}


def test_credentials_that_sts_does_not_give_are_one_line(
    s3: S3, identity: WebIdentity, spark: SparkSession
) -> None:
    forged, good = identity.environ("pod", "forged"), identity.environ("pod")
    cases: list[tuple[str, dict[str, str], type[HeadwaterError], str]] = [
        ("forged", forged, SinkError, "STS refused to give the role's credentials (InvalidId"),
        ("unknown", {**good, "AWS_ROLE_ARN": f"{good['AWS_ROLE_ARN']}s"}, SinkError, "(AccessD"),
        ("nosts", {**good, "AWS_ENDPOINT_URL_STS": NOWHERE}, RetryableError, "answer from STS"),
    ]
    for name, environ, kind, said in cases:
        store = Delta(kind="delta", path=f"{s3.bucket(name)}/views")
        with in_a_pod(spark, environ), pytest.raises(kind) as found:
            opened(spark, store, "v", retry_s=0.0)
        assert said in found.value.message
        assert "\n" not in found.value.message


def test_check_asks_the_bucket(s3: S3) -> None:
    s3.bucket("checked")
    where = {f"{HADOOP}endpoint": s3.url, f"{HADOOP}endpoint.region": REGION}
    ask_bucket("s3://checked/views", where)
    wrong = {f"{HADOOP}access.key": KEY, f"{HADOOP}secret.key": f"{SECRET}?"}
    for path, more, said in [
        ("s3a://missing/views", {}, "bucket missing does not exist"),
        ("s3a://checked/views", wrong, "access denied"),
        ("s3a://checked/views", {f"{HADOOP}endpoint": NOWHERE}, "no answer from S3"),
    ]:
        with pytest.raises((SinkError, RetryableError), match=said) as found:
            ask_bucket(path, {**where, **more})
        assert SECRET not in str(found.value)


def test_the_command_line_keeps_a_view_in_s3_that_is_away_for_a_while(
    s3: S3, tmp_path: Path, source_name: str, database: str, kafka: str, lender: Lender
) -> None:
    view, bucket = f"{source_name}_items", s3.bucket("shop")
    extra = (
        f'[stores.lake]\nkind = "delta"\npath = "{bucket}"\ncadence_s = 0\n'
        f'[apply]\nstate = "{tmp_path}/state"\n[apply.spark]\n'
        f'"{HADOOP}endpoint" = "{s3.url}"\n"{HADOOP}endpoint.region" = "{REGION}"\n'
        f'[views.{view}]\nstore = "lake"\nkey = ["id"]\nsql = "select id, name from item"\n'
    )
    deployment = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    deployment.execute(
        "create table item (id int primary key, name text)",
        "insert into item select i, 'item ' || i from generate_series(1, 300) i",
    )
    done(deployment, "init", "--no-snapshot")

    def equal() -> None:
        assert "equal at LSN" in done(deployment, "verify", view)

    with deployment.running("capture"):
        assert f"delta at {bucket}" in done(deployment, "check")
        assert "is live: 300 rows" in done(deployment, "view", "create", view)
        with deployment.running("apply"):
            deployment.execute(
                "update item set name = name || '!' where id < 10",
                "delete from item where id > 290",
            )
            equal()
            s3.stop()
            deployment.execute("update item set name = 'away' where id between 20 and 40")
            away = partial(deployment.log, "apply")
            wait_until(lambda: "no answer from S3" in away(), "apply to find S3 away")
            s3.start()
            equal()
        done(deployment, "view", "drop", view, "--yes")
    assert not [one for one in (s3.buckets / "shop").glob("**/*") if one.is_file()]
    said = "".join(deployment.log(verb) for verb in ("capture", "apply"))
    assert SECRET not in said
