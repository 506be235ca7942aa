"""A table as Spark reads it from a topic: ``from_json`` with the schema of Debezium's events.

What everybody writes: the payload's ``after`` of the last record of each key, less the deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from tests.support.consumers.published import Published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS: Final = {
    "customers": ("id", "id int, name string, city string"),
    "orders": (
        "id",
        "id bigint, customer_id int, total binary, shipped boolean, placed string, due int,"
        " note string",
    ),
    "order_lines": ("order_id, line", "order_id bigint, line smallint, sku string, price double"),
    "kinds": (
        "id",
        "id int, i2 smallint, i4 int, i8 bigint, r4 float, f8 double, n binary, yes boolean,"
        " t string, vc string, c string, u string, e string, j string, jb string, ip string,"
        " b binary, d int, tm bigint, ts bigint, ts3 bigint, tz string",
    ),
    "extremes": ("id", "id int, f8 double, r4 float"),
    "articles": ("id", "id int, title string, body string"),
    "visits": ("id", "id int, page string"),
}
"""For each table its key, and its columns in the types that the events have."""


def _decimal(column: str, scale: int) -> str:
    """Of up to 18 digits: the bytes of Debezium's precise mode are its digits in two's
    complement."""
    sign = f"if(substr(hex({column}), 1, 1) >= '8', 'F', '0')"
    digits = f"cast(conv(lpad(hex({column}), 16, {sign}), 16, -10) as decimal(18,0))"
    return f"cast({digits} / {10**scale} as decimal(18,{scale}))"


_CONVERTED: Final = {
    "total": _decimal("total", 2),
    "n": _decimal("n", 3),
    "placed": "cast(to_timestamp(placed) as timestamp_ntz)",
    "tz": "cast(to_timestamp(tz) as timestamp_ntz)",
    "due": "date_add(date'1970-01-01', due)",
    "d": "date_add(date'1970-01-01', d)",
    "body": "left(body, 30)",
}


def table(spark: SparkSession, published: Published, name: str) -> list[tuple[Any, ...]]:
    """The rows as values of Python, in the order of their text; times without a zone are numbers,
    as they come."""
    key, columns = COLUMNS[name]
    payload = f"payload struct<before struct<{columns}>, after struct<{columns}>, op string>"
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", published.bootstrap)
        .option("subscribe", published.topic(name))
        .load()
    )
    keys = [f"coalesce(after.{column}, before.{column})" for column in key.split(", ")]
    chosen = [column.split(" ")[0] for column in columns.split(", ")]
    rows = (
        records.where("value is not null")
        .selectExpr(f"from_json(string(value), '{payload}').payload as payload", "offset")
        .selectExpr("payload.*", "offset")
        .withColumn("last", F.expr(f"max(offset) over (partition by {', '.join(keys)})"))
        .where("offset = last and op <> 'd'")
        .select("after.*")
        .selectExpr(*(f"{_CONVERTED.get(column, column)} as {column}" for column in chosen))
        .collect()
    )
    plain = (tuple(bytes(v) if isinstance(v, bytearray) else v for v in row) for row in rows)
    return sorted(plain, key=str)
