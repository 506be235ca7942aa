"""Columns of jsonb as objects of an index: what is written is PostgreSQL's text, and comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from cdc.config import View
from cdc.errors import ViewError
from cdc.lsn import Position
from headwater.check.index_fields import IndexFields
from jobs.sinks.documents import Document
from jobs.sinks.opensearch.json_fields import exact, json_fields, text_of, with_objects
from jobs.sinks.opensearch.mapping import properties
from jobs.sinks.schema_evolution import POSTGRES_TYPE

COLUMNS = StructType(
    [
        StructField("id", IntegerType()),
        StructField("doc", StringType(), metadata={POSTGRES_TYPE: "jsonb"}),
        StructField("raw", StringType(), metadata={POSTGRES_TYPE: "json"}),
        StructField("note", StringType()),
    ]
)
AT = Position(7, 1)


def view(**mapping: dict[str, Any]) -> View:
    return View(store="search", key=("id",), sql="select 1", mapping=mapping)


@pytest.mark.parametrize("kind", ["object", "nested", "flat_object"])
def test_only_jsonb_whose_mapping_says_so_is_an_object(kind: str) -> None:
    assert json_fields("v", COLUMNS, {"note": {"type": "text"}}) == ()
    assert json_fields("v", COLUMNS, {"doc": {"type": kind}}) == ("doc",)
    for other in ("raw", "note"):
        with pytest.raises(ViewError, match=rf"mapping of {other}: .* is made of jsonb. Cast"):
            json_fields("v", COLUMNS, {other: {"type": kind}})
    field = properties("v", COLUMNS, view(doc={"type": kind, "dynamic": "false"}))["doc"]
    assert field == {"type": kind, "dynamic": "false"}


def test_new_names_get_fields_unless_the_mapping_says_otherwise() -> None:
    inner = {"a": {"type": "keyword"}}
    field = properties("v", COLUMNS, view(doc={"type": "object", "properties": inner}))["doc"]
    assert field == {"type": "object", "dynamic": True, "properties": inner}
    assert properties("v", COLUMNS, view(doc={"type": "flat_object"}))["doc"] == {
        "type": "flat_object"
    }
    assert properties("v", COLUMNS)["doc"]["type"] == "keyword"


def test_the_text_is_written_as_it_is_and_nothing_else_changes() -> None:
    text = '{"a": 1.50, "b": [1e400, "x\\n"], "": null}'
    body = json.dumps({"id": 1 << 62, "doc": text, "note": "n"})
    gone = Document("2", None, AT, ())
    null = Document("3", json.dumps({"id": 3, "doc": "null"}), AT, ())
    nothing = Document("4", json.dumps({"doc": None}), AT, ())
    whole, odd = with_objects([Document("1", body, AT, ()), gone, null, nothing], ["doc"])
    assert whole[0].body == f'{{"id":{1 << 62},"note":"n","doc":{text}}}'
    assert (whole[1], whole[2].body) == (gone, '{"doc":null}')
    assert [(one.id, one.cause.partition(",")[0]) for one in odd] == [
        ("3", "doc is JSON null; an object field cannot tell it from SQL NULL")
    ]


NUMBERS = st.sampled_from(["0", "-1", "1.50", "0.0000000001", "123456789012345678901234567890"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)


def written(value: Any) -> str:
    """As PostgreSQL writes jsonb."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written((k,))}: {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, tuple):  # a text
        return json.dumps(value[0], ensure_ascii=False)
    return str(value)


@given(
    st.recursive(
        st.one_of(NUMBERS, st.tuples(TEXTS), st.sampled_from(["true", "false", "null"])),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner)),
    )
)
def test_what_is_read_is_the_text_that_was_written(value: Any) -> None:
    text = written(value)
    assert text_of(exact(text)) == text


def test_large_integers_are_integers() -> None:
    """Beside objects, as keys of other columns: 19 digits, and a minus."""
    large = [1234567890123456789, -(2**63), 10**30]
    assert exact(json.dumps(large)) == large


def test_fields_that_are_near_the_limit_are_foreseen() -> None:
    assert IndexFields(900, 0, 1000).fault == ""
    assert IndexFields(1001, 0, 1000).fault == "its index has 1,001 fields and may have 1,000"
    near = IndexFields(10, 800, 1000)
    assert near.fault.startswith("its index has 810 fields, 800 of them of JSON in 1,000 rows,")
    assert "flat_object" in near.hint
    assert IndexFields(10, 700, 1000).fault == ""


@pytest.mark.parametrize("text", ['{"a": ' * 700 + "1" + "}" * 700, "[" * 700 + "]" * 700])
def test_a_value_that_is_nested_deep_comes_back(text: str) -> None:
    assert text_of(exact(text)) == text
