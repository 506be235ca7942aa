"""What only a PostgreSQL store has: types, rights, what people build on a view."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from cdc.config import Postgres
from cdc.errors import SinkError, ViewError
from jobs.sinks.postgres.relations import make_schema
from jobs.sinks.schema_evolution import POSTGRES_TYPE
from jobs.sinks.stores import open_generations
from jobs.spark.column_types import columns_of
from tests.support.events.batches import batch_rows, delete, upsert
from tests.support.servers.stores import LSN, OpenFeed, items
from tests.support.waiting import wait_until
from views.parse.definition import parse_view
from views.spark.resolution import resolve
from views.table_versions import parse_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITEMS = items()


@pytest.fixture
def base(store_database: str) -> Postgres:
    return Postgres(kind="postgres", dsn=store_database)


@pytest.fixture
def conn(store_database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(store_database, autocommit=True) as conn:
        yield conn


def test_two_views_make_the_schema_of_their_store_at_once(
    store_database: str, conn: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(store_database) as other, ThreadPoolExecutor(1) as thread:
        make_schema(other, "shared")  # in a transaction that is open still
        second = thread.submit(make_schema, conn, "shared")
        waiting = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
        with psycopg.connect(store_database, autocommit=True) as watch:
            wait_until(
                lambda: watch.execute(waiting, [conn.info.backend_pid]).fetchone() == (True,),
                "the second view to wait for the first",
            )
        other.commit()
        second.result(60)
    conn.execute("drop schema shared")


def told(name: str, postgres: str, several: bool = False) -> StructField:
    kind = ArrayType(StringType()) if several else StringType()
    return StructField(name, kind, True, {POSTGRES_TYPE: postgres})


def test_values_that_are_text_in_spark_have_their_own_types(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    columns = StructType(
        [
            told("id", "uuid"),
            told("amount", "numeric"),
            told("said", "json"),
            told("data", "jsonb"),
            told("ids", "uuid", several=True),
            told("amounts", "numeric", several=True),
        ]
    )
    feed = open_feed(base, columns)
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    values: dict[str, Any] = {
        "amount": "12345678901234567890.10",
        "said": '{"b":1,  "a": "\\\\ \\" \\n"}',
        "data": '{"a": [1, 2.50], "b": null}',
        "ids": [one, None, two],
        "amounts": ["1.50", "NAN", "NEGATIVE_INFINITY"],
    }
    feed.apply(upsert(LSN, id=one, **values), upsert(LSN, 2, id=two, amount="POSITIVE_INFINITY"))
    rows = feed.rows()
    assert rows[(one,)].values == {
        "id": one,
        **values,
        "amounts": ["1.50", "NaN", "-Infinity"],
    }
    assert rows[(two,)].values["amount"] == "Infinity"
    found = conn.execute(
        "select a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a"
        f" where a.attrelid = 'public.\"{feed.view}\"'::regclass and a.attnum > 0"
    )
    assert dict(found.fetchall()) == {
        "id": "uuid",
        "amount": "numeric",
        "said": "json",
        "data": "jsonb",
        "ids": "uuid[]",
        "amounts": "numeric[]",
    }


def test_a_column_of_a_table_keeps_its_type_through_the_view() -> None:
    types = ["int8", "uuid", "jsonb", "numeric", "text"]
    record = {
        "schema_id": "1",
        "schema": "public",
        "table": "t",
        "replica_identity": "d",
        "key": ["c0"],
        "columns": [
            {"name": f"c{i}", "type": name, "base": name, "typmod": -1, "element": None}
            for i, name in enumerate(types)
        ],
    }
    view = resolve(parse_view("v", "s", ("c0",), "select * from t"), parse_version(record))
    found = {field.name: field.metadata.get(POSTGRES_TYPE) for field in columns_of(view)}
    assert found == {"c0": None, "c1": "uuid", "c2": "jsonb", "c3": "numeric", "c4": None}


def test_keys_that_are_equal_but_not_the_same_text_are_one_row(
    base: Postgres, open_feed: OpenFeed
) -> None:
    feed = open_feed(base, StructType([told("id", "numeric"), StructField("name", StringType())]))
    feed.apply(upsert(LSN, id="1.0", name="a"))
    feed.apply(delete(LSN + 1, 1, id="1.0"), upsert(LSN + 1, 2, id="1.00", name="b"))
    assert [row.values["name"] for row in feed.rows().values()] == ["b"]


def test_a_change_of_type_that_is_none_to_spark_is_refused(
    base: Postgres, open_feed: OpenFeed
) -> None:
    id_ = StructField("id", LongType())
    open_feed(base, StructType([id_, told("data", "uuid")]))
    with pytest.raises(ViewError, match=r"holds data as uuid, but its type is now jsonb\. Rebuild"):
        open_feed(base, StructType([id_, told("data", "jsonb")]))


def test_a_schema_is_made_and_odd_names_are_quoted(
    store_database: str, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    base = Postgres(kind="postgres", dsn=store_database, target_schema='a "b".c')
    columns = (
        StructType().add("id", LongType()).add('na"me \\', StringType()).add("Über%s", LongType())
    )
    feed = open_feed(base, columns)
    first: dict[str, Any] = {"id": 1, 'na"me \\': "x", "Über%s": 7}
    feed.apply(upsert(LSN, **first))
    feed.apply(upsert(LSN + 1, unchanged=('na"me \\',), **{"id": 1, "Über%s": 8}))
    found = conn.execute(f'select * from "a ""b"".c"."{feed.view}"'.encode())
    assert found.fetchall() == [(1, "x", 8)]


def test_an_added_column_is_seen_by_readers_and_rights_stay(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    feed = open_feed(base)
    role = f"reader_{feed.view}"
    conn.execute(f'create role {role}; grant select on "{feed.view}" to {role}'.encode())
    wider = StructType([*ITEMS, StructField("n", LongType())])
    other = StructType([ITEMS["id"], StructField("n", LongType())])
    try:
        open_feed(base, wider).apply(upsert(LSN, id=1, name="a", n=5))
        generations = open_generations(base, feed.view, None)
        rows = batch_rows(feed.spark, other, [upsert(LSN, 0, id=1, n=6)])
        generations.load(2, rows, other, ("id",))
        conn.execute(f"set role {role}".encode())
        assert conn.execute(f'select n, name from "{feed.view}"'.encode()).fetchall() == [(5, "a")]
        generations.switch(2)  # a column less: the view is made anew
        assert conn.execute(f'select * from "{feed.view}"'.encode()).fetchall() == [(1, 6)]
    finally:
        conn.execute(f"reset role; drop owned by {role}; drop role {role}".encode())


def test_a_numeric_may_lose_its_limits_also_in_the_key(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    def of(number: DataType, metadata: dict[str, Any] | None = None) -> StructType:
        listed = StructField("list", ArrayType(number), metadata=metadata)
        return StructType([StructField("n", number, metadata=metadata), listed])

    price, large = Decimal("1.50"), "9" * 60
    open_feed(base, of(DecimalType(6, 2)), ("n",)).apply(upsert(LSN, n=price, list=[price]))
    feed = open_feed(base, of(StringType(), {POSTGRES_TYPE: "numeric"}), ("n",))
    feed.number = 1
    feed.apply(upsert(LSN + 1, n="1.5000", list=["2"]), upsert(LSN + 1, 2, n=large, list=[large]))
    found = conn.execute(f'select n, list from "{feed.view}" order by n'.encode()).fetchall()
    assert found == [(price, [2]), (Decimal(large), [Decimal(large)])]


def test_what_depends_on_a_view_is_not_dropped_with_it(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    feed = open_feed(base)
    conn.execute(f'create view above as select name from "{feed.view}"'.encode())
    generations = open_generations(base, feed.view, None, retry_s=1)
    with pytest.raises(SinkError, match=r"depend on it\. Drop what depends on the view"):
        generations.drop(1)
    feed.apply(upsert(LSN, id=1, name="a"))
    assert conn.execute("select * from above").fetchall() == [("a",)]


def test_rows_written_twice_by_a_task_that_ran_again_are_loaded_once(
    base: Postgres, spark: SparkSession, source_name: str, conn: psycopg.Connection[Any]
) -> None:
    generations = open_generations(base, source_name, spark)
    rows = batch_rows(spark, ITEMS, [upsert(LSN, 0, id=i, name="a") for i in range(50)])
    generations.load(1, rows.union(rows), ITEMS, ("id",))
    generations.switch(1)
    (count,) = conn.execute(f'select count(*) from "{source_name}"'.encode()).fetchone() or (0,)
    assert count == 50
    generations.close()


def test_old_tombstones_are_removed(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    feed = open_feed(base)
    table = f'public."{feed.view}@1"'
    feed.apply(delete(LSN, id=1), delete(LSN, 2, id=2))
    conn.execute(
        f"update {table} set __deleted_at = now() - interval '25 hours' where id = 1".encode()
    )
    again = open_feed(base)
    again.apply(upsert(LSN + 1, id=3, name="c"))
    assert sorted(conn.execute(f"select id from {table}".encode())) == [(2,), (3,)]
