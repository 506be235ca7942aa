"""OpenSearch's bulk format, its answers, and the index of a view."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pyspark.sql.types import ArrayType, DecimalType, LongType, MapType, StringType, StructType

from cdc.errors import ViewError
from cdc.lsn import Position
from jobs.sinks.documents import Document
from jobs.sinks.opensearch.bulk import (
    BODY_BYTES,
    Request,
    document_id,
    read_answer,
    reason,
    request,
)
from jobs.sinks.opensearch.mapping import index_body, properties

NOW_MS = 1_700_000_000_000


def _document(key: str, body: str | None = '{"id":1}', lsn: int = 2**62 + 1) -> Document:
    return Document(key, body, Position(lsn, 3), ())


def test_a_request_has_one_versioned_pair_of_lines_a_document() -> None:
    one = request([_document('a"\n'), _document("b", None)], "external", NOW_MS)
    lines = [orjson.loads(line) for line in one.body.splitlines()]
    position = {"__commit_lsn": 2**62 + 1, "__ordinal": 3}
    versioned = {"version": 2**62 + 1, "version_type": "external"}
    assert lines == [
        {"index": {"_id": 'a"\n', **versioned}},
        {"id": 1, **position},
        {"index": {"_id": "b", **versioned}},
        {"__deleted_at": NOW_MS, **position},
    ]


def _cut(documents: list[Document]) -> list[Request]:
    cut = []
    while documents:
        cut.append(request(documents, "external", NOW_MS))
        documents = documents[len(cut[-1].documents) :]
    return cut


def test_requests_are_cut_by_size_and_lose_no_document() -> None:
    body = '{"id":"' + "x" * 100_000 + '"}'
    documents = [_document(str(number), body) for number in range(50)]
    cut = _cut(documents)
    assert [d for request in cut for d in request.documents] == documents
    assert len(cut) == 3
    assert all(len(request.body) <= BODY_BYTES for request in cut)


def test_a_document_over_the_limit_is_a_request_of_its_own() -> None:
    large = _document("large", '{"id":"' + "x" * BODY_BYTES + '"}')
    cut = _cut([_document("a"), large, _document("b")])
    assert [[d.id for d in request.documents] for request in cut] == [["a"], ["large"], ["b"]]


def test_keys_that_are_no_ids_are_hashed() -> None:
    assert document_id("k" * 512) == "k" * 512
    hashed = {document_id(key) for key in ("", "k" * 513, "k" * 514, "\u00fc" * 300)}
    assert len(hashed) == 4
    assert all(id_.startswith("sha256:") and len(id_) == 71 for id_ in hashed)


def _answer(*items: dict[str, Any]) -> dict[str, Any]:
    return {"errors": True, "items": [{"index": item} for item in items]}


def test_answers_are_sorted_by_what_has_to_be_done() -> None:
    documents = [_document(key) for key in "abcd"]
    one = request(documents, "external", NOW_MS)
    told = "failed to parse field [n] of type [long] in document with id 'd'. Preview: 'secret'"
    answer = read_answer(
        one,
        _answer(
            {"status": 201},
            {"status": 409, "error": {"type": "version_conflict_engine_exception"}},
            {"status": 429, "error": {"type": "rejected_execution_exception"}},
            {"status": 400, "error": {"type": "mapper_parsing_exception", "reason": told}},
        ),
    )
    assert answer.ties == [documents[1]]
    assert answer.busy == [documents[2]]
    [refusal] = answer.refused
    assert refusal.cause == "OpenSearch refused it: HTTP 400 mapper_parsing_exception in field n"
    assert (refusal.id, refusal.position) == ("d", documents[3].position)
    assert "secret" not in str(answer.refused)
    assert answer.fault == ""


def test_what_is_about_the_index_is_no_document_s_fault() -> None:
    one = request([_document("a")], "external", NOW_MS)
    gone = {"status": 404, "error": {"type": "index_not_found_exception", "reason": "no such"}}
    answer = read_answer(one, _answer(gone))
    assert (answer.fault, answer.refused) == ("HTTP 404 index_not_found_exception", [])


@pytest.mark.parametrize(("held", "ties"), [(5, 1), (6, 0)])
def test_only_an_equal_version_needs_a_second_look(held: int, ties: int) -> None:
    one = request([_document("a", lsn=5)], "external", NOW_MS)
    told = f"[a]: version conflict, current version [{held}] is higher or equal to the one [5]"
    answer = read_answer(one, _answer({"status": 409, "error": {"reason": told}}))
    assert len(answer.ties) == ties


def test_a_reason_holds_no_values() -> None:
    assert reason({"type": "x", "reason": "Document contains 'secret'"}) == "x"
    strict = "mapping set to strict, dynamic introduction of [extra] within [_doc] is not allowed"
    assert reason({"type": "strict_dynamic_mapping_exception", "reason": strict}).endswith("extra")


def test_an_index_has_a_field_a_column_and_hides_tombstones() -> None:
    columns = StructType().add("id", LongType()).add("prices", ArrayType(DecimalType(10, 2)))
    body = index_body("Flights", columns, ("id",), ["flights"])
    fields = body["mappings"]["properties"]
    assert fields["prices"] == {"type": "double", "ignore_malformed": True}
    assert {"id", "__commit_lsn", "__ordinal", "__deleted_at"} <= fields.keys()
    assert body["aliases"]["flights"]["filter"]["bool"]["must_not"]
    assert body["mappings"]["_meta"]["headwater_view"] == "Flights"


@pytest.mark.parametrize("name", ["a.b", "_source", "a b", ""])
def test_names_that_opensearch_reads_otherwise_are_refused(name: str) -> None:
    with pytest.raises(ViewError, match="Give it another name"):
        properties("v", StructType().add(name, LongType()))


def test_types_that_opensearch_cannot_index_are_refused() -> None:
    columns = StructType().add("m", MapType(StringType(), LongType()))
    with pytest.raises(ViewError, match="cannot index m, a map<string,bigint>"):
        properties("v", columns)
