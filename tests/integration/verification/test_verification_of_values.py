"""Values of every type, as any SELECT may compute them, are equal in source and store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc.config import OpenSearch, Postgres, Redis, Store
from tests.support.views.kept_views import table
from tests.support.views.nested_documents import TABLES, VIEWS
from tests.support.views.state_engine import StateEngine

TYPES = """
create type mood as enum ('good', 'so, so', 'bad');
create domain score as numeric(6, 2) check (value >= 0);
create type pair as (one integer, other text);
"""
COLUMNS = {
    "id": "bigint", "name": "text", "price": "numeric(12,4)", "amount": "numeric",
    "weight": "real", "size": "double precision", "ok": "boolean", "day": "date",
    "at": "timestamp", "seen": "timestamptz", "data": "bytea", "tag": "uuid", "doc": "jsonb",
    "raw": "json", "clock": "time", "zoned": "timetz", "span": "interval", "flags": "bit(5)",
    "many": "bit varying", "host": "inet", "code": "char(5)", "place": "point",
    "numbers": "int[]", "words": "text[]", "amounts": "numeric(8,2)[]", "stamps": "timestamptz[]",
    "years": "int4range", "spans": "tstzrange", "cash": "money", "feeling": "mood",
    "feelings": "mood[]", "rating": "score", "couple": "pair",
}  # fmt: skip
ROWS = r"""
insert into things values
    (1, 'E''s "é"' || E'\t\n\\', 12.5, 1.10, 0.1, 1e-300, true, '2024-02-29',
     '2024-02-29 12:00:00.5', '2024-02-29 12:00:00+02', '\x00ff',
     '6b9d2a3e-1111-2222-3333-444455556666', '{"b": 1.0, "a": [null, "ü"]}', '{ "x" : 1 }',
     '12:00:00.25', '12:00:00+02', '1 year 2 mons -3 days 04:05:06.7', '10101', '101',
     '192.168.0.1/24', 'ab', '(1.5,-2)', '{1,null,3}', '{"a b",null,"c,\""}', '{1.50,2}',
     '{"2024-01-01 00:00+00",null}', '[1,5)', '["2024-01-01","2024-02-01")', '12.34', 'so, so',
     '{bad,"so, so"}', 7.5, '(1,"x, y")'),
    (2, '', 0, 'NaN', 'NaN', 'Infinity', false, '0001-01-01', '0001-01-01',
     '9999-12-31 23:59:59.999999+00', '', null, 'null', '[]', '24:00:00', '00:00:00-12', '-1 mons',
     '00000', '', '::1', '',
     '(0,0)', '{}', '{}', '{}', '{}', 'empty', '(,)', '-0.01', 'good', '{}', 0, null),
    (3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
     null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
     null, null),
    (4, 'ends', -0.0001, '-Infinity', '-0', '-0', null, '0044-03-15 BC', '1582-10-10',
     '1900-01-01 00:00+00', null, null, '"x"', '"x"', '00:00', null, 'P0D', '11111', '1',
     '10.0.0.0/8', 'abcde', null, '{1,2}', '{a,c}', null, null, '(,3]', null, null,
     null, null, 99.99, '(,)')
"""
COMPUTED = """
with seen as (select id, name, price, row_number() over (order by id) as number from things)
select t.*, s.number,
    lag(t.price) over (order by t.id) as before, t.price * 1.5 as more, t.amount / 3 as third,
    round(t.size::numeric, 3) as rounded, t.at::date as on_day, t.seen - t.at as apart,
    t.day + t.clock as moment, t.day + 1 as tomorrow, extract(year from t.at) as year,
    date_trunc('month', t.seen) as month, upper(t.name) as loud, t.words[1] as first,
    t.doc -> 'a' as parts, t.doc ->> 'b' as b, t.doc || '[1.0]' as longer, t.span * 2 as twice,
    t.numbers || 7 as appended, array(select w from unnest(t.words) u(w) order by w) as sorted,
    (select jsonb_agg(jsonb_build_object('id', o.id, 'price', o.price) order by o.id)
     from things o where o.id <= t.id) as upto,
    (select string_agg(o.name, ', ' order by o.id) from things o where o.id < t.id) as names,
    (select count(*) from things o where o.price > t.price) as dearer,
    json_build_object('n', t.name, 'at', t.at) as built, to_jsonb(t.couple) as pair_json,
    row_to_json(s) as whole, t.years * int4range(2, 4) as overlap, lower(t.spans) as since,
    t.feeling::text as feeling_text, coalesce(t.feeling, 'bad') as felt, t.flags | B'00001' as bits,
    case when t.ok then 1 else 2.5 end as chosen, 'fixed' as fixed, null as nothing,
    t.id = 1 as one, t.zoned::text as zoned_text, extract(hour from t.zoned) as zoned_hour
from things t left join seen s using (id)
where t.name is distinct from 'nobody'
"""
INSERTS = [part.strip() for part in TABLES.split(";") if "insert into" in part]
SHOP = [
    table(
        "customers", ["id"], ["name"],
        id="int", name="text", city="text", referred_by="int",
    ),
    table("products", ["sku"], ["name", "price"], sku="text", name="text", price="numeric(8,2)"),
    table(
        "orders", ["id"], ["customer_id", "total", "placed", "shipped"],
        id="int", customer_id="int", total="numeric(10,2)", placed="timestamptz", shipped="boolean",
        note="text", tags="text[]", extra="jsonb", weight="double precision", made="date",
        took="interval", rate="real", exact="numeric", raw="bytea", at="timestamp",
    ),
    table(
        "lines", ["order_id", "no"], ["sku", "quantity"],
        order_id="int", no="int", sku="text", quantity="int",
    ),
]  # fmt: skip


@pytest.fixture(params=["redis", "opensearch", "postgres"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "redis":
        return Redis(kind="redis", url=request.getfixturevalue("redis_server"))
    if request.param == "opensearch":
        return OpenSearch(kind="opensearch", url=request.getfixturevalue("opensearch"))
    dsn = request.getfixturevalue("store_database")
    return Postgres(kind="postgres", dsn=dsn, target_schema="shown_to_people")


@pytest.fixture
def things(
    database: str, store_database: str, store: Store, source_name: str
) -> Iterator[StateEngine]:
    engine = StateEngine(
        database, store_database, store, source_name, COMPUTED, ("id",),
        [table("things", ["id"], **COLUMNS)], TYPES,
    )  # fmt: skip
    yield engine
    engine.close()


def test_values_of_every_type_are_equal(things: StateEngine) -> None:
    things.change(ROWS.strip())
    things.apply()
    report = things.verify()
    assert report.differences == []
    assert (report.equal, report.source_rows, report.view_rows) == (True, 4, 4)


def test_a_row_that_no_store_can_hold_is_told_as_parked(things: StateEngine) -> None:
    things.change(ROWS.strip())
    things.change("insert into things (id, at) values (5, 'infinity')")
    things.apply()
    report = things.verify()
    assert [(item.kind, item.key) for item in report.differences] == [("parked", {"id": 5})]
    assert (report.wrong, report.parked, report.equal) == (0, 1, False)


@pytest.mark.parametrize("name", VIEWS)
def test_objects_that_a_view_nests_are_equal(
    database: str, store_database: str, redis_server: str, source_name: str, name: str
) -> None:
    """Of views whose objects are known, and so are the limits of their numerics."""
    key, sql = VIEWS[name]
    sql = sql.replace("group by o.id, c.id", "group by o.id, o.placed, c.id, c.name")
    sql = sql.replace("group by c.id", "group by c.id, c.name")
    store = Redis(kind="redis", url=redis_server)
    engine = StateEngine(database, store_database, store, source_name, sql, key, SHOP)
    for statement in INSERTS:
        engine.change(statement)
    engine.apply()
    report = engine.verify()
    assert report.differences == []
    assert report.equal
    assert report.source_rows > 1
    engine.close()
