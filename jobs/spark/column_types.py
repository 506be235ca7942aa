"""A view's columns as Spark types, without a Spark session."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from jobs.sinks.schema_evolution import POSTGRES_TYPE
from views.spark.resolution import ResolvedView
from views.spark.view import MaintainedView
from views.types import PgType

TEXT_HERE = ("json", "jsonb", "numeric", "uuid")
"""Types whose values are text in Spark, the text that PostgreSQL itself reads and writes."""

_BY_NAME: dict[str, type[DataType]] = {
    "smallint": ShortType,
    "int": IntegerType,
    "bigint": LongType,
    "float": FloatType,
    "double": DoubleType,
    "boolean": BooleanType,
    "date": DateType,
    "timestamp_ntz": TimestampNTZType,
    "timestamp": TimestampType,
    "binary": BinaryType,
    "string": StringType,
}


def columns_of(view: ResolvedView | MaintainedView) -> StructType:
    """The same type that Spark parses ``view.ddl()`` to; what that makes text of is told by the
    column's metadata, for stores that have PostgreSQL's types."""
    return columns_named([(output.name, output.type) for output in view.outputs])


def columns_named(columns: Iterable[tuple[str, PgType]]) -> StructType:
    """The same of names and types."""
    return StructType([_field(name, kind) for name, kind in columns])


def _field(name: str, kind: PgType) -> StructField:
    element = kind.item if kind.name == "array" else kind
    told = element.name in TEXT_HERE and element.spark == "string"
    return StructField(
        name, spark_type(kind), metadata={POSTGRES_TYPE: element.name} if told else None
    )


def spark_type(kind: PgType) -> DataType:
    """The Spark type that ``kind.spark`` names."""
    if kind.name == "array":
        return ArrayType(spark_type(kind.item))
    if kind.name == "struct":
        return StructType([StructField(name, spark_type(of)) for name, of in kind.fields])
    if kind.exact:
        return DecimalType(kind.precision, kind.scale)
    return _BY_NAME[kind.spark]()
