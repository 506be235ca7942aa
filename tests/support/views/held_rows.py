"""What a store holds of a view, byte for byte but for the order of a document's fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import opensearchpy
import orjson
import psycopg
import redis
from deltalake import DeltaTable, QueryBuilder
from psycopg import sql

from tests.support.servers.stores import Store


def held(store: Store, view: str) -> Any:
    """What a store holds of a view, and what it says of its columns."""
    return _HELD[store.kind](store, view)


def _of_redis(store: Any, view: str) -> Any:
    client: Any = redis.Redis.from_url(store.url, decode_responses=True)
    found = {}
    for key in client.scan_iter(f"{view}@1[:#]*"):
        kind, name = client.type(key), key.removeprefix(view)
        if kind == "hash":
            row = client.hgetall(key)
            if "__index" in row:
                row["__index"] = row["__index"].replace(view, "")
            found[name] = {**row, "doc": orjson.loads(row["doc"])} if row.get("doc") else row
        elif kind == "string":
            found[name] = orjson.loads(client.get(key))
        else:
            found[name] = (
                client.zrange(key, 0, -1, withscores=True)
                if kind == "zset"
                else set(client.smembers(key))
            )
    described = client.hgetall(f"__headwater:{view}@1")
    return found, described


def _of_opensearch(store: Any, view: str) -> Any:
    client = opensearchpy.OpenSearch(hosts=[store.url])
    index = f"{view}-1".lower()
    client.indices.refresh(index=index)
    hits = client.search(index=index, body={"size": 100})["hits"]["hits"]
    mapping = client.indices.get_mapping(index=index)[index]["mappings"]
    mapping["_meta"].pop("headwater_view")
    return {hit["_id"]: hit["_source"] for hit in hits}, mapping


def _of_postgres(store: Any, view: str) -> Any:
    table = sql.Identifier(store.target_schema, f"{view}@1")
    with psycopg.connect(store.dsn) as conn:
        rows = conn.execute(sql.SQL("select t::text from {} t order by id").format(table))
        types = conn.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute a"
            " join pg_class c on c.oid = attrelid where relname = %s and attnum > 0",
            [f"{view}@1"],
        )
        return rows.fetchall(), types.fetchall()


def _of_delta(store: Any, view: str) -> Any:
    table = DeltaTable(f"{store.path}/{view}")
    found = QueryBuilder().register("t", table).execute("select * from t order by id")
    rows = [repr(column) for column in found.read_all().columns]
    return rows, table.schema().to_json()


_HELD: dict[str, Callable[[Any, str], Any]] = {
    "redis": _of_redis,
    "opensearch": _of_opensearch,
    "postgres": _of_postgres,
    "delta": _of_delta,
}
