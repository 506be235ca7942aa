"""Records of the driver in a plan that is made once: a cell of the JVM that the plan reads.

The cell holds one text. Spark serializes it for each task that it starts, and so sends what the
cell holds by then. A plan with a step that keeps what it once read would give that again.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from jobs.spark.event_values import JSON_OPTIONS

_RECORDS: Final = (
    "array<struct<topic: string, `partition`: int, `offset`: bigint, key: string, value: string>>"
)
_KEEPING: Final = ("Exchange", "InMemory", "Subquery", "QueryStage")
"""In the names of those steps of a plan that keep what they once read."""


def open_cell(session: SparkSession) -> tuple[Any, DataFrame]:
    """An array of one place for a JSON text, and the records that the text is."""
    gateway: Any = session.sparkContext._gateway
    java, spark = gateway.jvm.java, gateway.jvm.org.apache.spark.sql
    cell = gateway.new_array(java.lang.Object, 1)
    row = java.util.ArrayList()
    row.add(spark.RowFactory.create(cell))
    context: Any = session.sparkContext._jsc
    native: Any = session._jsparkSession
    schema = native.parseDataType(StructType().add("text", StringType()).json())
    held = DataFrame(native.createDataFrame(context.parallelize(row, 1), schema), session)
    records = F.from_json("text", _RECORDS, JSON_OPTIONS)
    return cell, held.coalesce(1).select(F.inline(records))


def keeping(rows: DataFrame) -> list[str]:
    """The steps of a plan that keep what they once read."""
    query: Any = rows._jdf.queryExecution()
    found, left = list[str](), [query.executedPlan()]
    while left:
        step = left.pop()
        name = step.getClass().getSimpleName()
        found += [name] * any(one in name for one in _KEEPING)
        for steps in (step.children(), step.subqueries()):
            left += [steps.apply(i) for i in range(steps.size())]
    return found
