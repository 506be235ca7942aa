"""What a view's declaration may say of its index."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType

from cdc.config import View
from cdc.errors import ViewError
from jobs.sinks.opensearch.mapping import index_body
from jobs.sinks.opensearch.overrides import filled, filling, flat

COLUMNS = StructType().add("id", LongType()).add("name", StringType()).add("rate", DoubleType())


def declared(**more: Any) -> View:
    return View(store="search", key=("id",), sql="select 1", **more)


def body(**more: Any) -> dict[str, Any]:
    return index_body("v", COLUMNS, ("id",), ("v",), declared(**more))


def fields(**mapping: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body(mapping=mapping)["mappings"]["properties"]
    return found


def test_a_field_is_merged_over_what_follows_from_the_column() -> None:
    found = fields(name={"normalizer": "low", "fields": {"suggest": {"type": "completion"}}})
    assert found["name"] == {
        "type": "keyword",
        "ignore_above": 8191,
        "normalizer": "low",
        "fields": {"text": {"type": "text"}, "suggest": {"type": "completion"}},
    }
    assert found["rate"] == {"type": "double", "ignore_malformed": True}
    assert {"__commit_lsn", "__ordinal", "__deleted_at"} <= found.keys()


def test_another_type_replaces_the_derived_one_and_takes_any_value() -> None:
    found = fields(name={"type": "text", "analyzer": "english"}, rate={"type": "scaled_float"})
    assert found["name"] == {"type": "text", "analyzer": "english"}
    assert found["rate"] == {"type": "scaled_float", "ignore_malformed": True}
    strict = fields(name={"type": "date", "ignore_malformed": False})
    assert strict["name"] == {"type": "date", "ignore_malformed": False}


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (
            {"mapping": {"nmae": {"type": "text"}}},
            "its mapping names nmae. Choose from the view's columns: id, name, rate",
        ),
        ({"mapping": {"__ordinal": {"type": "text"}}}, "its mapping names __ordinal"),
        ({"mapping": {"name": {"type": "alias", "path": "id"}}}, "type alias cannot hold"),
        ({"mapping": {"name": {"copy_to": ["id", "all"]}}}, "copy_to names all, which is not a"),
        ({"settings": {"index": {"blocks": {"write": True}}}}, r"blocks\.write may not be set"),
        ({"settings": {"final_pipeline": "p"}}, "pipeline changes documents"),
        (
            {"settings": {"index": {"translog": {"durability": "async"}}}},
            r"translog\.durability may not be set. .*hat OpenSearch has acknowledged has to be",
        ),
    ],
)
def test_what_does_not_fit_the_view_or_headwater_is_refused(
    more: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ViewError, match=fault):
        body(**more)


def test_settings_are_those_of_people_and_those_of_the_load_are_put_back() -> None:
    analysis = {"normalizer": {"low": {"type": "custom", "filter": ["lowercase"]}}}
    wanted = {
        "index": {"number_of_shards": 3, "refresh_interval": "1s", "translog.sync_interval": "9s"},
        "number_of_replicas": 1,
        "analysis": analysis,
    }
    settings = body(settings=wanted)["settings"]
    assert settings == {
        "number_of_shards": 3,
        "refresh_interval": "1s",
        "translog.durability": "request",
        "translog.sync_interval": "9s",
        "number_of_replicas": 1,
        "auto_expand_replicas": "false",
        "analysis": analysis,
    }
    loading = filling(settings)
    assert (loading["number_of_shards"], loading["number_of_replicas"]) == (3, 0)
    # A server that is killed meanwhile has what it acknowledged: nobody would send it again.
    assert loading["translog.durability"] == "request"
    assert filled(settings) == {
        "auto_expand_replicas": "false",
        "number_of_replicas": 1,
        "refresh_interval": "1s",
        "translog.flush_threshold_size": None,
    }


def test_names_may_be_nested_or_dotted() -> None:
    assert flat({"index.search": {"idle.after": "5s"}}) == {"search.idle.after": "5s"}
    assert flat({"index": {"codec": "zstd"}}) == {"codec": "zstd"}


LINES = ArrayType(StructType().add("sku", StringType()).add("count", LongType()))


def lines(**mapping: Any) -> dict[str, Any]:
    found = index_body(
        "v",
        StructType([*COLUMNS, StructField("lines", LINES)]),
        ("id",),
        ("v",),
        declared(mapping={"lines": mapping}),
    )
    lines: dict[str, Any] = found["mappings"]["properties"]["lines"]
    return lines


def test_an_array_of_structs_is_an_object_unless_it_is_declared_nested() -> None:
    derived = lines()
    assert derived["type"] == "object"
    assert derived["properties"]["count"] == {"type": "long"}
    assert derived["properties"]["sku"]["type"] == "keyword"
    assert lines(type="nested") == {**derived, "type": "nested"}
    inner = lines(type="nested", properties={"sku": {"type": "text"}})["properties"]
    assert inner == {**derived["properties"], "sku": {"type": "text"}}
    assert lines(properties={"sku": {"copy_to": "name"}})["properties"]["sku"]["copy_to"] == "name"
    assert lines(enabled=False) == {"type": "object", "enabled": False}
    with pytest.raises(ViewError, match=r"names skuu\. Choose from its fields: sku, count"):
        lines(properties={"skuu": {"type": "text"}})
