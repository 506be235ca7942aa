"""How rows lie in Redis, as a view declares it: formats, names, expiry, secondary sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import redis
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from structlog.testing import capture_logs

from cdc.config import Redis, View
from cdc.errors import RetryableError, SinkError, ViewError
from cdc.lsn import Position
from jobs.sinks.redis.client import Keyspace
from jobs.sinks.row_errors import RowsRefusedError
from jobs.sinks.stores import open_generations, open_sink
from tests.support.events.batches import Feed, batch_rows, delete, upsert
from tests.support.servers.stores import LSN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    StructType()
    .add("id", LongType())
    .add("name", StringType())
    .add("n", IntegerType())
    .add("rate", DoubleType())
    .add("on", BooleanType())
    .add("tags", ArrayType(StringType()))
    .add("at", TimestampType())
)
AT = datetime(2024, 2, 29, 12, 0, 0, 5, UTC)
ROW: dict[str, Any] = {
    "name": 'q" ü',
    "n": 2**31 - 1,
    "rate": 0.1,
    "on": False,
    "tags": ["a", None],
    "at": AT,
}

Open = Callable[..., Feed]


@pytest.fixture
def client(redis_server: str) -> Iterator[Any]:
    with redis.Redis.from_url(redis_server, decode_responses=True) as client:
        yield client


@pytest.fixture
def opened(spark: SparkSession, redis_server: str, source_name: str) -> Iterator[Open]:
    feeds: list[Feed] = []

    def open_it(columns: StructType = COLUMNS, key: tuple[str, ...] = ("id",), **more: Any) -> Feed:
        declared = View(store="cache", key=key, sql="select 1", **more)
        config = Redis(kind="redis", url=redis_server)
        sink = open_sink(config, source_name, spark, 30, None, declared)
        sink.prepare(columns, key)
        feeds.append(Feed(spark, sink, columns, source_name))
        return feeds[-1]

    yield open_it
    for feed in feeds:
        feed.sink.close()


@pytest.mark.parametrize("shape", ["document", "hash", "json"])
def test_each_format_keeps_rows_and_forgets_no_delete(opened: Open, shape: str) -> None:
    feed = opened(format=shape)
    feed.apply(upsert(LSN, id=1, **ROW), upsert(LSN, 2, id=2, n=1), upsert(LSN, 3, id=3))
    rows = feed.rows()
    assert rows[(1,)].values == {"id": 1, **ROW}
    assert rows[(3,)].values == {"id": 3, **dict.fromkeys(ROW)}
    kept = tuple(name for name in ROW if name != "n")
    feed.apply(upsert(LSN + 1, id=1, n=7, unchanged=kept), delete(LSN + 1, 2, id=2))
    feed.restart()
    feed.apply(upsert(LSN, id=1, name="late"), upsert(LSN, 2, id=2, n=1))
    feed.apply(upsert(LSN, id=2, unchanged=("name",)))
    rows = feed.rows()
    assert rows.keys() == {(1,), (3,)}
    assert rows[(1,)].values == {"id": 1, **ROW, "n": 7}
    assert rows[(1,)].position == Position(LSN + 1, 1)
    with pytest.raises(ViewError, match="Rebuild the view"):
        feed.apply(upsert(LSN + 2, id=2, unchanged=("name",)))
    feed.truncate(Position(LSN + 3, 1))
    feed.apply(upsert(LSN + 2, id=3, n=3), upsert(LSN + 4, id=2, n=2))
    assert feed.values("n") == {2: 2}


@pytest.mark.parametrize("shape", ["document", "hash", "json"])
def test_wider_types_leave_rows_and_their_names_as_they_are(
    opened: Open, client: Any, source_name: str, shape: str
) -> None:
    key, one = ("id", "price"), Decimal("1.50")
    rest: dict[str, Any] = {"format": shape, "index_by": () if shape == "json" else ("price",)}

    def of(whole: DataType, digits: int) -> StructType:
        price = DecimalType(digits, 2)
        return StructType().add("id", whole).add("price", price).add("n", whole)

    opened(of(IntegerType(), 6), key, **rest).apply(
        upsert(LSN, id=1, price=one, n=1), upsert(LSN, 2, id=2, price=one, n=2)
    )
    feed = opened(of(LongType(), 10), key, **rest)
    feed.number = 1
    more = Decimal("12345678.90")
    feed.apply(
        upsert(LSN + 1, id=1, price=one, n=1 << 40), upsert(LSN + 1, 2, id=1 << 40, price=more)
    )
    assert {key: row.values["n"] for key, row in feed.rows().items()} == {
        (1, one): 1 << 40, (2, one): 2, (1 << 40, more): None
    }  # fmt: skip
    assert client.zcard(f"{source_name}@1#price") == (0 if shape == "json" else 3)
    with pytest.raises(ViewError, match=r"price decimal\(10,2\), now decimal\(12,4\)"):
        opened(StructType().add("id", LongType()).add("price", DecimalType(12, 4)), key, **rest)


def test_a_hash_has_a_field_for_each_value_and_a_string_is_the_row(
    opened: Open, client: Any, source_name: str
) -> None:
    feed = opened(format="hash")
    feed.apply(upsert(LSN, id=1, name="a", n=5, on=True, tags=["x"]))
    held = client.hgetall(f"{source_name}@1:1")
    assert held.pop("__pos") == Position(LSN, 1).hex()
    assert held == {"id": "1", "name": "a", "n": "5", "on": "true", "tags": '["x"]'}
    feed.apply(upsert(LSN + 1, id=1, n=6))
    assert client.hkeys(f"{source_name}@1:1") == ["__pos", "id", "n"]


def test_a_json_string_is_the_row_and_is_gone_with_it(
    opened: Open, client: Any, source_name: str, spark: SparkSession, redis_server: str
) -> None:
    columns = StructType().add("id", StringType()).add("n", IntegerType())
    feed = opened(columns, format="json")
    odd = "a{b}c%"
    feed.apply(upsert(LSN, id="x", n=1), upsert(LSN, 2, id=odd, n=2))
    row = orjson.loads(client.get(f"{source_name}@1:x"))
    assert row == {"__position": Position(LSN, 1).hex(), "id": "x", "n": 1}
    assert client.exists(f"{source_name}@1:a%7Bb%7Dc%25")
    feed.apply(delete(LSN + 1, id="x"), delete(LSN + 1, 2, id=odd))
    assert not client.exists(f"{source_name}@1:x")
    assert 86_000 < client.ttl(f"__gone:{{{source_name}@1:x}}") <= 86_400
    open_generations(Redis(kind="redis", url=redis_server), source_name, spark).drop(1)
    assert list(client.scan_iter(f"*{source_name}*")) == []


def test_keys_follow_the_template_and_stay_apart(
    opened: Open, client: Any, source_name: str
) -> None:
    columns = StructType().add("a", StringType()).add("b", StringType()).add("n", IntegerType())
    feed = opened(columns, ("a", "b"), key_template="customer:{b}:{a}")
    pairs = [("x", "y"), ("x:y", "z"), ("x", "z:y"), ("%3A", ":"), ("", "")]
    feed.apply(*(upsert(LSN, i, a=a, b=b, n=i) for i, (a, b) in enumerate(pairs)))
    assert feed.rows().keys() == set(pairs)
    names = sorted(client.scan_iter(f"{source_name}@1:*"))
    assert names == sorted(
        f"{source_name}@1:customer:{name}"
        for name in ("y:x", "z:x%3Ay", "z%3Ay:x", "%3A:%253A", ":")
    )


def test_rows_expire_and_an_update_of_one_that_has_is_no_fault(
    opened: Open, client: Any, source_name: str
) -> None:
    feed = opened(ttl_s=3600)
    feed.apply(upsert(LSN, id=1, name="a"), upsert(LSN, 2, id=2, name="b"))
    assert 3_500 < client.ttl(f"{source_name}@1:1") <= 3_600
    client.delete(f"{source_name}@1:1")  # as if it had expired
    feed.apply(upsert(LSN + 1, id=1, n=1, unchanged=("name",)), upsert(LSN + 1, 2, id=2, n=2))
    assert feed.rows().keys() == {(2,)}
    assert 3_500 < client.ttl(f"{source_name}@1:2") <= 3_600


def test_secondary_sets_follow_the_rows(opened: Open, client: Any, source_name: str) -> None:
    feed = opened(index_by=("name", "rate", "at", "on"))
    at = f"{source_name}@1#"
    feed.apply(
        upsert(LSN, 1, id=1, name="a", rate=1.5, at=AT, on=True),
        upsert(LSN, 2, id=2, name="a", rate=-2.0),
        upsert(LSN, 3, id=3, rate=float("nan")),
    )
    assert client.smembers(f"{at}name:a") == {"1", "2"}
    assert client.smembers(f"{at}on:true") == {"1"}
    assert client.zrange(f"{at}rate", 0, -1, withscores=True) == [("2", -2.0), ("1", 1.5)]
    assert client.zscore(f"{at}at", "1") == AT.timestamp()
    feed.apply(upsert(LSN + 1, id=1, name="b", rate=9.0), delete(LSN + 1, 2, id=2))
    feed.apply(upsert(LSN, id=2, name="late"))
    assert client.smembers(f"{at}name:b") == {"1"}
    assert client.zrange(f"{at}rate", 0, -1, withscores=True) == [("1", 9.0)]
    assert sorted(client.scan_iter(f"{at}*")) == [f"{at}name:b", f"{at}rate"]
    feed.truncate(Position(LSN + 2, 0))
    assert list(client.scan_iter(f"{at}*")) == []


def test_sets_that_a_cut_off_batch_left_behind_are_settled_when_it_comes_again(
    opened: Open, client: Any, source_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = opened(index_by=("name", "rate"))
    at = f"{source_name}@1#"
    feed.apply(upsert(LSN, id=1, name="a", rate=1.0), upsert(LSN, 2, id=2, name="a"))
    changes = (
        upsert(LSN + 1, id=1, name="b", rate=2.0),
        upsert(LSN + 1, 2, id=2, rate=3.0, unchanged=("name",)),
    )

    def cut(keyspace: Keyspace, commands: Any) -> Any:
        if any(command[0] == "ZADD" for command in commands):
            raise RetryableError("cut")
        return plain(keyspace, commands)

    plain = Keyspace.each
    with monkeypatch.context() as patched:
        patched.setattr(Keyspace, "each", cut)
        with pytest.raises(RetryableError):
            feed.apply(*changes)
    assert client.smembers(f"{at}name:a") == {"1", "2"}
    feed.replay(feed.number, *changes)
    assert client.smembers(f"{at}name:a") == {"2"}
    assert client.smembers(f"{at}name:b") == {"1"}
    assert client.zrange(f"{at}rate", 0, -1, withscores=True) == [("1", 2.0), ("2", 3.0)]
    assert not client.hexists(f"{source_name}@1:1", "__unsettled")


def test_a_generation_keeps_the_shape_it_was_made_with(
    opened: Open, spark: SparkSession, redis_server: str, source_name: str, client: Any
) -> None:
    opened().apply(upsert(LSN, id=1, name="a"))
    with capture_logs() as logs:
        feed = opened(format="json", key_template="row:{id}")
        feed.apply(upsert(LSN + 1, id=1, name="b"))
    assert [line["event"] for line in logs] == ["rows_kept_as_they_were_built"]
    assert client.hget(f"{source_name}@1:1", "doc") is not None
    declared = View(
        store="cache", key=("id",), sql="select 1", format="json", key_template="row:{id}"
    )
    config = Redis(kind="redis", url=redis_server)
    generations = open_generations(config, source_name, spark, 30, declared)
    rows = batch_rows(spark, COLUMNS, [upsert(LSN, 0, id=1, name="c")])
    generations.load(2, rows, COLUMNS, ("id",))
    generations.switch(2)
    assert orjson.loads(client.get(f"{source_name}@2:row:1"))["name"] == "c"
    generations.close()


def test_an_index_over_what_cannot_be_one_is_refused(opened: Open) -> None:
    with pytest.raises(
        ViewError, match=r"index_by names nmae\. Choose from the view's columns: id, name"
    ):
        opened(index_by=("nmae",))
    with pytest.raises(ViewError, match=r"index_by: tags is array<string>\. Choose"):
        opened(index_by=("tags",))


def test_a_key_held_by_something_else_costs_its_row_alone(
    opened: Open, client: Any, source_name: str
) -> None:
    feed = opened()
    client.lpush(f"{source_name}@1:2", "mine")
    with pytest.raises(RowsRefusedError, match=r"refused 1 row.*WRONGTYPE") as refused:
        feed.apply(*(upsert(LSN, i, id=i, name="a") for i in range(4)))
    assert [(one.id, one.position) for one in refused.value.rows] == [("2", Position(LSN, 2))]
    client.delete(f"{source_name}@1:2")
    assert feed.rows().keys() == {(0,), (1,), (3,)}


def test_a_set_held_by_something_else_is_an_error_without_values(
    opened: Open, client: Any, source_name: str
) -> None:
    feed = opened(index_by=("name",))
    client.set(f"{source_name}@1#name:s3cr3t", "mine")
    with pytest.raises(SinkError, match="another program holds a key of the view") as refused:
        feed.apply(upsert(LSN, id=1, name="s3cr3t"))
    assert "s3cr3t" not in str(refused.value)
