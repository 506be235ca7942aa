"""The function behind ``views.spark.expressions.text_functions``, run by Spark's Python workers on
batches of texts."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from views.spark.expressions.text_functions import FUNCTION, answering


def register(session: SparkSession) -> None:
    """Make the function known to a session, and to those that are cloned from it."""
    function = arrow_udf(answers, "string")  # type: ignore[call-overload]
    session.udf.register(FUNCTION, function)


def answers(texts: pa.Array, asked: pa.Array) -> pa.Array:
    """The answer for each text; ``asked`` is the same in every row."""
    if not len(texts):
        return pa.array([], pa.string())
    answer = answering(asked[0].as_py())
    found = [None if text is None else answer(text) for text in texts.to_pylist()]
    return pa.array(found, pa.string())
