"""What Spark's workers answer; tests/integration/views/test_json_text.py asks PostgreSQL the
same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cdc.events.codes import PLACEHOLDER
from jobs.spark.text_udf import answers
from views.spark.expressions.json_text import Step
from views.spark.expressions.text_functions import REFUSED, answering, asking

PRICE = asking("text", [Step("field", "price")], binary=False)


def test_a_batch_is_answered_row_by_row() -> None:
    texts = pa.array(['{"price": 1.0}', None, '{"price" : 1e2, "price":"x" }', "[]", "{"])
    found = answers(texts, pa.array([PRICE] * 5))
    assert found.to_pylist() == ["1.0", None, "x", None, REFUSED]
    assert answers(texts.slice(0, 0), pa.array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize("text", ["", "{", '{"price": 1,', '{"price"', "[1", '"', r'"\ud800"', "x"])
def test_what_is_no_json_is_refused_and_ends_no_worker(text: str) -> None:
    for question in ("part", "length", "has"):  # of what is valid up to there
        assert answering(asking(question, [Step("field", "price")], True, ""))(text) != "price"
    assert answering(PRICE)(text) == REFUSED


def test_what_stands_for_an_unsent_value_is_no_value() -> None:
    assert answering(PRICE)(PLACEHOLDER) is None


@pytest.mark.parametrize("question", ["has", "contains", "part", "text", "length"])
def test_what_is_nested_too_deep_is_a_fault_of_its_row(question: str) -> None:
    """PostgreSQL takes 1,200 levels; the view must not end with them."""
    for text in ("[" * 1_200 + "]" * 1_200, '{"a":' * 1_200 + "1" + "}" * 1_200):
        answered = answering(asking(question, [], True, "1"))(text)
        if question in ("has", "contains"):
            assert answered == REFUSED
