"""Views of several rows, as docs/sql.md declares them: the same documents on both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pytest
from pyspark.sql import functions as F

from cdc.errors import ViewError
from cdc.lsn import Position
from cdc.source.postgres import Connection
from cdc.source.types import load_types
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, UNCHANGED, Batch
from jobs.sinks.contract import ORDINAL as ORDINAL_COLUMN
from jobs.sinks.documents import Document, Documents, document_list
from jobs.sinks.redis.layout import Shape
from jobs.sinks.rows import Rows, RowSink
from jobs.sinks.stores import open_sink
from jobs.spark.column_types import columns_of
from jobs.state.values.document_sql import DocumentSql
from jobs.state.views.known_columns import known_columns
from jobs.state.views.store_rows import DocumentForm, RowForm, form_of_store
from jobs.state.views.view_columns import ViewColumn, described, spark_columns
from tests.support.events.both_ways import LSN, ORDINAL, Both, both_ways
from tests.support.servers.stores import Store
from tests.support.views.held_rows import held
from tests.support.views.nested_documents import TABLES, VIEWS
from views.parse.definition import parse_view
from views.spark.plan import whole
from views.spark.resolution import resolve
from views.spark.view import MaintainedView, resolve_maintained
from views.types import PgType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = ("customers", "products", "orders", "lines")
KEYS = {"lines": ("order_id", "no"), "products": ("sku",)}


@pytest.fixture
def both(database: str) -> Iterator[Both]:
    with both_ways(database, TABLES) as both:
        yield both


@pytest.fixture
def conn(database: str) -> Iterator[Connection]:
    """A session as the state database has them."""
    options = "-c TimeZone=UTC"
    with psycopg.connect(
        database, autocommit=True, prepare_threshold=None, options=options
    ) as conn:
        yield conn


@pytest.mark.parametrize("name", VIEWS)
def test_documents_are_those_of_spark(
    both: Both, conn: Connection, spark: SparkSession, name: str
) -> None:
    key, select = VIEWS[name]
    columns, view = columns_known(conn, key, select), maintained(both, key, select)
    assert spark_columns(columns) == columns_of(view)
    found = made(conn, DocumentForm(DocumentSql(columns, key, Shape())), select)
    assert not found.unfit
    documents = sorted(map(comparable, found.written))
    assert documents == sorted(map(comparable, by_spark(both, spark, view)))
    assert documents


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["lists_of_every_type", "agg_of_objects_and_values"])
def test_stores_hold_the_same(
    both: Both,
    conn: Connection,
    spark: SparkSession,
    store: Store,
    source_name: str,
    name: str,
) -> None:
    key, select = VIEWS[name]
    columns, view = columns_known(conn, key, select), maintained(both, key, select)
    form = form_of_store(store, columns, key, None)
    one, other = f"{source_name}_s", f"{source_name}_r"
    by_rows, by_frame = (open_sink(store, v, spark) for v in (other, one))
    for sink in (by_rows, by_frame):
        sink.prepare(spark_columns(columns), key)
    by_frame.apply(rows_of(both, spark, view), Batch(one, "g", 1, 100))
    assert isinstance(by_rows, RowSink)
    by_rows.write_rows(made(conn, form, select), Batch(other, "g", 1, 100))
    assert held(store, one) == held(store, other)
    by_rows.close()
    by_frame.close()


@pytest.mark.parametrize("name", VIEWS)
def test_objects_are_known_where_the_sql_is_of_another_kind(
    both: Both, conn: Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, select = VIEWS[name]
    wanted = json_kinds(columns_known(conn, key, select))

    def refused(*_: Any) -> None:
        raise ViewError("it is no view of that kind")

    monkeypatch.setattr("jobs.state.views.known_columns.resolve_view", refused)
    assert json_kinds(columns_known(conn, key, select)) == wanted
    assert both


def json_kinds(columns: tuple[ViewColumn, ...]) -> dict[str, PgType]:
    bases = {c.name: c.type.element.base if c.type.element else c.type.base for c in columns}
    return {c.name: c.kind for c in columns if bases[c.name] in ("json", "jsonb")}


ANY = {
    "a scalar subquery": (
        "select o.id, (select jsonb_agg(jsonb_build_object('sku', l.sku, 'amount',"
        " l.quantity * p.price, 'price', p.price) order by l.no) from lines l join products p"
        " using (sku) where l.order_id = o.id) as lines from orders o where o.id = 1",
        {
            "id": 1,
            "lines": [
                {"sku": "a", "amount": "3.00", "price": "1.50"},
                {"sku": "b", "amount": "0.10", "price": "0.10"},
            ],
        },
    ),
    "a lateral one": (
        "select o.id, coalesce(x.lines, '[]'::jsonb) as lines from orders o left join lateral"
        " (select jsonb_agg(jsonb_build_object('no', l.no, 'placed', o.placed)) as lines"
        " from lines l where l.order_id = o.id and l.no = 1) x on true where o.id = 1",
        {"id": 1, "lines": [{"no": 1, "placed": "2024-02-29T12:00:00.120000Z"}]},
    ),
    "lists in objects of a list": (
        "select c.id, (select coalesce(json_agg(json_build_object('id', o.id, 'lines', (select"
        " coalesce(json_agg(json_build_object('sku', l.sku, 'price', (select p.price from products"
        " p where p.sku = l.sku)) order by l.no), '[]') from lines l where l.order_id = o.id),"
        " 'skus', (select coalesce(json_agg(l.sku order by l.no), '[]') from lines l"
        " where l.order_id = o.id)) order by o.id), '[]') from orders o where o.customer_id = c.id)"
        " as orders from customers c where c.id = 2",
        {"id": 2, "orders": [{"id": 3, "lines": [], "skus": []}]},
    ),
    "lists in objects of a group": (
        "select c.id, count(*) as n, json_agg(json_build_object('id', o.id, 'lines', x.lines,"
        " 'nos', (select json_agg(l.no order by l.no) from lines l where l.order_id = o.id))"
        " order by o.id) as orders from customers c join orders o on o.customer_id = c.id"
        " left join lateral (select json_agg(json_build_object('sku', l.sku, 'n', l.quantity)"
        " order by l.no) as lines from lines l where l.order_id = o.id) x on true"
        " where c.id = 1 group by c.id",
        {
            "id": 1,
            "n": 2,
            "orders": [
                {"id": 1, "lines": [{"sku": "a", "n": 2}, {"sku": "b", "n": 1}], "nos": [1, 2]},
                {"id": 2, "lines": [{"sku": "zz", "n": 3}, {"sku": "a", "n": 1}], "nos": [1, 2]},
            ],
        },
    ),
    "groups that a WITH makes": (
        "with x as (select order_id, count(*) as n, json_agg(json_build_object('s', sku, 'of',"
        " json_build_object('no', no)) order by no) as ls from lines group by order_id)"
        " select o.id, json_build_object('n', x.n, 'total', o.total, 'ls', x.ls) as w"
        " from orders o join x on x.order_id = o.id where o.id = 2",
        {
            "id": 2,
            "w": {
                "n": 2,
                "total": "0.50",
                "ls": [{"s": "zz", "of": {"no": 1}}, {"s": "a", "of": {"no": 2}}],
            },
        },
    ),
    "JSON that is a column's": (
        "select o.id, o.extra -> 'b' as b, json_build_object('extra', o.extra) as o"
        " from orders o where o.id = 1",
        {"id": 1, "b": "[1]", "o": {"extra": '{"a": 1.0, "b": [1]}'}},
    ),
    "names that are no literals": (
        "select o.id, json_build_object(o.note, o.total) as o from orders o where o.id = 1",
        {"id": 1, "o": '{"n" : 10.00}'},
    ),
}


@pytest.mark.parametrize("name", ANY)
def test_objects_of_any_select(both: Both, conn: Connection, name: str) -> None:
    select, document = ANY[name]
    columns = columns_known(conn, ("id",), select)
    form = DocumentForm(DocumentSql(columns, ("id",), Shape()))
    [one] = made(conn, form, select).written
    assert orjson.loads(one.body) == document
    assert both


def columns_known(conn: Connection, key: tuple[str, ...], select: str) -> tuple[ViewColumn, ...]:
    types = load_types(conn)
    tables = [f"public.{table}" for table in NAMES]
    known = known_columns(conn, select, key, tables, lambda table: table, types)
    return described(conn, select, types, known)


def maintained(both: Both, key: tuple[str, ...], select: str) -> MaintainedView:
    versions = {f"public.{table}": both.version(table, KEYS.get(table, ("id",))) for table in NAMES}
    return resolve_maintained(parse_view("v", "s", list(key), select), versions)


def made(conn: Connection, form: RowForm, select: str) -> Rows:
    expressions = ", ".join(form.expressions("m", "m"))
    rows = conn.execute(f"select {expressions} from ({select}) m".encode()).fetchall()
    return form.rows(rows, Position(LSN, ORDINAL))


def rows_of(both: Both, spark: SparkSession, view: MaintainedView) -> DataFrame:
    """The view's own Spark SQL over typed tables, as mirrors have them."""
    relations = {}
    for alias, table in view.tables.items():
        select = f"select * from {table.name}"
        typed = resolve(parse_view("v", "s", list(table.key), select), table)
        both.rows(spark, typed).createOrReplaceTempView(f"nested_{table.table}")
        relations[alias] = f"nested_{table.table}"
    return spark.sql(whole(view, relations)).select(
        "*",
        F.lit(False).alias(DELETED),
        F.lit(LSN).cast("bigint").alias(COMMIT_LSN),
        F.lit(ORDINAL).cast("bigint").alias(ORDINAL_COLUMN),
        F.expr("cast(array() as array<string>)").alias(UNCHANGED),
        F.lit(None).cast("timestamp").alias(COMMITTED_AT),
    )


def by_spark(both: Both, spark: SparkSession, view: MaintainedView) -> list[Document]:
    rows = rows_of(both, spark, view)
    return document_list(Documents(columns_of(view), view.key)(rows).toArrow())


def comparable(document: Document) -> Any:
    body = orjson.loads(document.body or "")
    return document.id, repr([(name, type(value), value) for name, value in body.items()])
