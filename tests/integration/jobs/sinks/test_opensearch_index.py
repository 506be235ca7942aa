"""The index of a view as it was declared, and a real server that has too much to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import opensearchpy
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from structlog.testing import capture_logs

from cdc.config import OpenSearch, View
from cdc.errors import RetryableError, ViewError
from cdc.lsn import Position
from headwater.check.view_columns import check_columns
from jobs.sinks.contract import Batch
from jobs.sinks.documents import Document
from jobs.sinks.opensearch.client import Server
from jobs.sinks.opensearch.writer import OpenSearchWriter
from jobs.sinks.row_errors import RowsRefusedError
from jobs.sinks.rows import Rows, RowSink
from jobs.sinks.schema_evolution import POSTGRES_TYPE
from jobs.sinks.stores import open_generations, open_sink
from stack import servers
from stack.ports import free_port
from tests.support.events.batches import Feed, batch_rows, upsert
from tests.support.servers.stores import LSN, items
from views.types import PgType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITEMS = items()
FOLDED = {
    "analysis": {"normalizer": {"folded": {"type": "custom", "filter": ["lowercase"]}}},
    "index": {"number_of_shards": 2, "refresh_interval": "30s"},
}


def declared(**more: Any) -> View:
    return View(store="search", key=("id",), sql="select 1", **more)


@pytest.fixture
def client(opensearch: str) -> Iterator[opensearchpy.OpenSearch]:
    with opensearchpy.OpenSearch([opensearch]) as client:
        yield client


@pytest.fixture
def search(opensearch: str) -> OpenSearch:
    return OpenSearch(kind="opensearch", url=opensearch)


def feed_of(spark: SparkSession, search: OpenSearch, view: str, declared: View) -> Feed:
    sink = open_sink(search, view, spark, 30, None, declared)
    sink.prepare(ITEMS, ("id",))
    return Feed(spark, sink, ITEMS, view)


def test_a_declared_mapping_and_settings_are_those_of_the_index(
    spark: SparkSession, search: OpenSearch, source_name: str, client: opensearchpy.OpenSearch
) -> None:
    view = declared(mapping={"name": {"normalizer": "folded"}}, settings=FOLDED)
    feed = feed_of(spark, search, source_name, view)
    feed.apply(upsert(LSN, id=1, name="Grüße"))
    assert client.count(index=source_name, q="name:GRÜSSE OR name:grüße")["count"] == 1
    held = client.indices.get_settings(index=source_name)[f"{source_name}-1"]["settings"]["index"]
    assert (held["number_of_shards"], held["refresh_interval"]) == ("2", "30s")
    assert feed.values("name") == {1: "Grüße"}


def test_a_generation_is_filled_fast_and_then_has_the_declared_settings(
    spark: SparkSession, search: OpenSearch, source_name: str, client: opensearchpy.OpenSearch
) -> None:
    view = declared(
        settings={**FOLDED, "number_of_replicas": 0, "translog": {"sync_interval": "9s"}}
    )
    generations = open_generations(search, source_name, spark, 30, view)
    rows = batch_rows(spark, ITEMS, [upsert(LSN, 0, id=i, name="a") for i in range(50)])
    generations.load(1, rows, ITEMS, ("id",))
    generations.switch(1)
    held = client.indices.get_settings(index=source_name)[f"{source_name}-1"]["settings"]["index"]
    assert held["refresh_interval"] == "30s"
    assert held["translog"] == {"durability": "request", "sync_interval": "9s"}
    assert held["auto_expand_replicas"] == "false"
    assert client.count(index=source_name)["count"] == 50
    generations.drop(1)


def test_a_copy_of_an_index_that_people_read_along_is_no_generation(
    spark: SparkSession, search: OpenSearch, source_name: str, client: opensearchpy.OpenSearch
) -> None:
    """It remembers the view as the index does that it was made of."""
    feed_of(spark, search, source_name, declared())
    mappings = client.indices.get_mapping(index=f"{source_name}-1")[f"{source_name}-1"]["mappings"]
    body = {"mappings": mappings, "aliases": {source_name: {}}}
    client.indices.create(index=f"{source_name}-1-copy", body=body)
    live = open_generations(search, source_name, spark).live()
    assert live is not None
    assert live.number == 1


def test_another_declaration_is_for_the_next_generation(
    spark: SparkSession, search: OpenSearch, source_name: str
) -> None:
    feed_of(spark, search, source_name, declared())
    with capture_logs() as logs:
        feed_of(spark, search, source_name, declared())
        feed_of(spark, search, source_name, declared(mapping={"gone": {"type": "text"}}))
    assert [line["event"] for line in logs] == ["index_kept_as_it_was_built"]


def test_what_the_server_does_not_take_is_told_in_its_words(
    spark: SparkSession, search: OpenSearch, source_name: str
) -> None:
    view = declared(mapping={"name": {"type": "text", "analyzer": "nowhere"}})
    with pytest.raises(
        ViewError, match=r"refused it: .*nowhere.* Correct the mapping and settings"
    ):
        feed_of(spark, search, source_name, view)


def test_check_asks_the_server_what_it_would_not_take_and_makes_nothing(
    search: OpenSearch, source_name: str, client: opensearchpy.OpenSearch
) -> None:
    found = [("id", PgType("int4")), ("name", PgType("text"))]

    def check(view: View, store: OpenSearch = search) -> None:
        check_columns(source_name, view, store, found)

    check(declared(mapping={"name": {"normalizer": "folded"}}, settings=FOLDED))
    nowhere = declared(mapping={"name": {"type": "text", "analyzer": "nowhere"}})
    with pytest.raises(ViewError, match=r"its index: .* refused it: .*nowhere"):
        check(nowhere)
    with pytest.raises(ViewError, match=r"unknown setting \[index.nosuch\]"):
        check(declared(settings={"nosuch": 1}))
    check(nowhere, search.model_copy(update={"url": f"http://127.0.0.1:{free_port(set())}"}))
    assert client.indices.get(index=f"{source_name}*") == {}


def test_a_value_that_a_declared_field_cannot_hold_costs_its_row_only_if_asked_for(
    spark: SparkSession, search: OpenSearch, source_name: str
) -> None:
    feed = feed_of(spark, search, source_name, declared(mapping={"name": {"type": "date"}}))
    feed.apply(upsert(LSN, id=1, name="2024-02-29"), upsert(LSN, 2, id=2, name="soon"))
    assert feed.values("name") == {1: "2024-02-29", 2: "soon"}
    strict = declared(mapping={"name": {"type": "date", "ignore_malformed": False}})
    feed = feed_of(spark, search, f"{source_name}s", strict)
    with pytest.raises(RowsRefusedError, match=r"refused 1 row.*HTTP 400 .*name") as refused:
        feed.apply(*(upsert(LSN, i, id=i, name="soon" if i == 3 else "2024") for i in range(6)))
    assert [one.position for one in refused.value.rows] == [Position(LSN, 3)]
    assert "soon" not in str(refused.value)
    assert len(feed.rows()) == 5


def test_a_search_that_the_server_forgot_is_one_to_begin_again(
    spark: SparkSession,
    search: OpenSearch,
    source_name: str,
    client: opensearchpy.OpenSearch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a node is started anew between two pages of it."""
    feed = feed_of(spark, search, source_name, declared())
    feed.apply(*(upsert(LSN, i, id=i, name="a") for i in range(3)))
    begun, plain = list[str](), opensearchpy.OpenSearch.search

    def noted(*arguments: Any, **named: Any) -> Any:
        page = plain(*arguments, **named)
        begun.append(page["_scroll_id"])
        return page

    monkeypatch.setattr(opensearchpy.OpenSearch, "search", noted)
    monkeypatch.setattr("jobs.sinks.opensearch.search.SCAN_DOCUMENTS", 1)
    rows = feed.sink.scan()
    next(rows)
    client.clear_scroll(scroll_id=begun[-1])
    with pytest.raises(RetryableError, match=f"forgot what was searched in {source_name}-1.rows"):
        list(rows)
    assert len(list(feed.sink.scan())) == 3


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[str]:
    """A server that takes one small request at a time."""
    settings = {
        "indexing_pressure.memory.limit": "300kb",
        "thread_pool.write.size": "1",
        "thread_pool.write.queue_size": "1",
    }
    try:
        yield servers.start(tmp_path, ["opensearch"], {"opensearch": settings}).opensearch_url
    finally:
        servers.purge(tmp_path)


@pytest.mark.server
def test_a_server_that_says_429_gets_everything_in_the_end(busy: str) -> None:
    view, count, writers = "v", 3_000, 6
    config = OpenSearch(kind="opensearch", url=busy)
    sink = open_sink(config, view, None, 120)
    sink.prepare(ITEMS, ("id",))
    text = "x" * 600

    def write(part: int) -> None:
        writer = OpenSearchWriter(Server(busy, "", "", True, 120), view, "v-1.rows")
        writer(
            [
                Document(str(i), f'{{"id":{i},"name":"{text}"}}', Position(LSN, i), ())
                for i in range(part, count, writers)
            ]
        )

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    with opensearchpy.OpenSearch([busy]) as client:
        client.indices.refresh(index="v-1.rows")
        assert client.count(index=view)["count"] == count
        (node,) = client.nodes.stats()["nodes"].values()
    rejected = node["thread_pool"]["write"]["rejected"]
    pressure = node["indexing_pressure"]["memory"]["total"]
    assert rejected + pressure["coordinating_rejections"] + pressure["primary_rejections"] > 0


DOCS = StructType(
    [
        StructField("id", IntegerType()),
        StructField("doc", StringType(), metadata={POSTGRES_TYPE: "jsonb"}),
    ]
)


def test_jsonb_is_an_object_that_is_searched_and_what_does_not_fit_is_refused_alone(
    search: OpenSearch, source_name: str, client: opensearchpy.OpenSearch
) -> None:
    limited = {"mapping.total_fields.limit": 25}
    view = declared(mapping={"doc": {"type": "object"}}, settings=limited)
    sink = open_sink(search, source_name, None, 30, None, view, made_anew=True)
    assert sink.prepare(DOCS, ("id",))
    assert isinstance(sink, RowSink)

    def write(*texts: tuple[int, str | None]) -> dict[str | None, str]:
        """Why which rows were refused."""
        rows = [
            Document(str(id_), json.dumps({"id": id_, "doc": text}), Position(LSN + id_, 1), ())
            for id_, text in texts
        ]
        try:
            sink.write_rows(Rows(rows, ()), Batch(source_name, "g", 1, len(rows)))
        except RowsRefusedError as error:
            return {one.id: one.cause for one in error.rows}
        return {}

    texts: dict[int, str | None] = {
        1: '{"a": 1.50, "kind": "car", "of": [{"n": 12345678901234567890123.10}]}',
        2: '{"b": {"deep": [1, 2, null]}, "kind": "\\"bus\\" \u00e9"}',
        3: None,
    }
    assert write(*texts.items()) == {}
    many = json.dumps({f"name{i}": "x" for i in range(30)})
    odd = [(4, '{"a": {"now": "an object"}}'), (5, '"a text"'), (6, many), (7, '{"kind": "tram"}')]
    refused = write(*odd)
    assert list(refused) == ["4", "5", "6"]
    assert all("OpenSearch refused it: HTTP 400" in cause for cause in refused.values())
    texts[7] = odd[-1][1]
    assert {row.values["id"]: row.values["doc"] for row in sink.scan()} == texts
    for field, wanted, id_ in (("a", 1.5, 1), ("kind.keyword", "tram", 7), ("b.deep", 2, 2)):
        found = client.search(index=source_name, body={"query": {"term": {f"doc.{field}": wanted}}})
        assert [hit["_source"]["id"] for hit in found["hits"]["hits"]] == [id_]
    by_spark = open_sink(search, source_name, None, 30, None, view)
    with pytest.raises(ViewError, match="texts where Spark computes the view"):
        by_spark.prepare(DOCS, ("id",))
