"""Values of every type: what the state database makes of a row is what Spark makes of its event."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg import sql

from jobs.sinks.documents import Document, Documents, document_list
from jobs.spark.column_types import columns_of
from jobs.state.views.store_rows import RowForm
from tests.integration.cdc.source.test_values_against_postgres import CASES
from tests.support.events.both_ways import Both, both_ways
from tests.support.values import MORE, TYPES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = 2
ROWS = 12
GROUP = 16
_NOT_ALIKE = ("regclass", "regtype")
"""Their text depends on the search path, and capture's is another one."""
_JSON_WITHIN = ("vector", "halfvec", "sparsevec", "point", "line", "circle")
ALL = [case for case in [*CASES, *MORE] if case[0] not in _NOT_ALIKE]
GROUPS = [ALL[i : i + GROUP] for i in range(0, len(ALL), GROUP)]


@pytest.fixture(scope="module")
def both(postgres: str) -> Iterator[Both]:
    name = "both_ways"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        with both_ways(postgres.rsplit("/", 1)[0] + f"/{name}", TYPES) as both:
            yield both
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.mark.parametrize("group", GROUPS, ids=[",".join(n for n, _ in g) for g in GROUPS])
def test_documents_are_those_that_spark_makes_of_events(
    both: Both, spark: SparkSession, group: list[tuple[str, st.SearchStrategy[str]]]
) -> None:
    row = st.tuples(*[st.none() | values for _, values in group])

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(row, min_size=ROWS, max_size=ROWS))
    def same(rows: list[tuple[str | None, ...]]) -> None:
        both.table([name for name, _ in group], rows)
        form = both.form("select * from public.t")
        unfit = [str(one.id) for one in both.made(form, "select * from public.t").unfit]
        gone = ", ".join(unfit) or "0"
        both.query(f"delete from public.t where id in ({gone}) returning id")
        kinds = {f"v{i}": name for i, (name, _) in enumerate(group)} | {"id": "int4"}
        wanted = by_spark(both, spark)
        for one, other in zip(told(both, form), wanted, strict=True):
            assert differing(one, other, kinds) == []

    same()


def told(both: Both, form: RowForm) -> list[Document]:
    return list(both.made(form, "select * from public.t").written)


def by_spark(both: Both, spark: SparkSession) -> list[Document]:
    view = both.view("select * from public.t")
    made = Documents(columns_of(view), ("id",))(both.rows(spark, view).orderBy("id"))
    return document_list(made.toArrow())


def differing(one: Document, other: Document, kinds: dict[str, str]) -> list[Any]:
    """Names, types and values that are not the same."""
    if one._replace(body=None, name="") != other._replace(body=None, name=""):
        return [one, other]
    bodies = [orjson.loads(document.body or "") for document in (one, other)]
    values = [[(n, type(v), told_as(kinds[n], v)) for n, v in body.items()] for body in bodies]
    return [(kinds[a[0]], a, b) for a, b in zip(*values, strict=True) if a != b]


def told_as(kind: str, value: Any) -> str:
    """The JVM writes more digits of a four-byte float than it takes, and exponents in its own way
    in what is JSON within a text."""
    if isinstance(value, list):
        return repr([told_as(kind.removesuffix("[]"), item) for item in value])
    if kind == "float4" and isinstance(value, float):
        return repr(struct.unpack("f", struct.pack("f", value)))
    if kind.startswith(_JSON_WITHIN) and isinstance(value, str):
        return repr(orjson.loads(value))
    return repr(value)
