"""Rows that a store refuses wait as dead letters, alone: a real Kafka, real stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import opensearchpy
import psycopg
import redis

from cdc.config import OpenSearch, Postgres, Redis
from jobs.without_mirrors.dead_letters.retry import names, retry
from tests.support.events.written_topics import row, v1
from tests.support.views.parkings import TWO, applied, lacking, letters_of, parked

if TYPE_CHECKING:
    from tests.support.views.bootstraps import Setting


def test_an_index_that_does_not_take_a_document_keeps_the_others(
    cached: Setting, opensearch: str
) -> None:
    store = OpenSearch(kind="opensearch", url=opensearch)
    cached.config = cached.config.model_copy(update={"stores": {"s": store}})
    log, index = cached.table.log, f"{cached.view}-1"
    log.write(v1(1, 1, row(1, "1")))
    assert applied(cached) == {}
    with opensearchpy.OpenSearch([opensearch]) as client:
        mapping = client.indices.get(index=index)[index]["mappings"]
        client.indices.delete(index=index)
        mapping["properties"]["body"] = {"type": "long"}
        aliases: dict[str, Any] = {f"{index}.rows": {}, cached.view: {}}
        client.indices.create(index=index, body={"mappings": mapping, "aliases": aliases})
        log.write(v1(2, 1, row(2, "two")), v1(3, 1, row(3, "3")))
        assert applied(cached) == {}
        (cause,) = {one.cause for one in letters_of(cached)}
        assert cause == "OpenSearch refused it: HTTP 400 mapper_parsing_exception in field body"
        client.indices.refresh(index=index)
        found = client.search(index=cached.view)["hits"]["hits"]
    assert [hit["_id"] for hit in found] == ["3"]


def test_a_key_in_redis_that_is_something_else_parks_that_row_alone(cached: Setting) -> None:
    log = cached.table.log
    log.write(v1(1, 1, row(1, "a")))
    assert applied(cached) == {}
    store = cached.config.stores["s"]
    assert isinstance(store, Redis)
    with redis.Redis.from_url(store.url) as client:
        client.set(f"{cached.view}@1:2", "mine")
        log.write(v1(2, 1, row(2, "b")), *(v1(3, i, row(i, "c")) for i in range(3, 9)))
        assert applied(cached) == {}
        assert parked(cached) == {TWO: 1}
        client.delete(f"{cached.view}@1:2")
    assert retry(cached.spark, cached.config, cached.view, None).left == {}
    assert cached.shown() == {1: "a", 2: "b"} | dict.fromkeys(range(3, 9), "c")


def test_a_row_that_postgresql_refuses_is_parked_alone(
    cached: Setting, store_database: str
) -> None:
    store = Postgres(kind="postgres", dsn=store_database)
    cached.config = cached.config.model_copy(update={"stores": {"s": store}})
    log = cached.table.log
    log.write(v1(1, 1, row(1, "a")))
    assert applied(cached) == {}
    table = f'"{cached.view}@1"'
    with psycopg.connect(store_database, autocommit=True) as conn:
        refuse = f"alter table {table} add constraint short check (length(body) < 5)"
        conn.execute(refuse.encode())
        log.write(v1(2, 1, row(2, "too long")), lacking(2, 3), v1(3, 4, row(4, "c")))
        assert applied(cached) == {}
        assert cached.shown() == {1: "a", 4: "c"}
        causes = {letter.key: letter.cause for letter in letters_of(cached)}
        assert causes.keys() == {TWO.encode(), b'{"id":3}'}
        assert causes[TWO.encode()] == "PostgreSQL refused it: 23514 CheckViolation in short"
        assert "neither the change nor the store" in causes[b'{"id":3}']
        conn.execute(f"alter table {table} drop constraint short".encode())
    outcome = retry(cached.spark, cached.config, cached.view, None)
    assert [names(letter) for letter in outcome.settled] == [TWO]
    assert cached.shown() == {1: "a", 2: "too long", 4: "c"}
