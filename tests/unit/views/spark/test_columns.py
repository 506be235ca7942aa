"""A view's columns without Spark are named as Spark names them."""

from __future__ import annotations

import pytest

from jobs.spark.column_types import spark_type
from views.types import PgType, numeric

NAMES = [
    *("int2", "int4", "int8", "oid", "float4", "float8", "bool", "date", "timestamp"),
    *("timestamptz", "bytea", "text", "uuid", "jsonb", "numeric", "interval", "enum"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_column_has_the_type_that_its_ddl_says(name: str) -> None:
    kind, several = PgType(name), PgType("array", element=name)
    assert spark_type(kind).simpleString() == kind.spark
    assert spark_type(several).simpleString() == several.spark


def test_a_numeric_with_limits_is_a_decimal_with_the_same() -> None:
    assert spark_type(numeric(12, 4)).simpleString() == "decimal(12,4)"
    assert spark_type(PgType("array", 12, 4, "numeric")).simpleString() == "array<decimal(12,4)>"
