"""Views over topics in another form than the default one: equal to the source all the same."""

from __future__ import annotations

import json

import pytest

from tests.support.commands.deployment import Deployment, done
from tests.support.servers.lent_jvm import Lender

TABLES = (
    "create table customer (id date primary key, name text not null, born timestamp(3),"
    " credit numeric(10,2), photo bytea, tags text[], note text, seen time, span interval)",
    "alter table customer alter note set storage external, alter photo set storage external",
    "insert into customer select date '2024-01-01' + i, 'c' || i, timestamp '1970-01-01' + i * "
    "interval '1 day', i / 4.0, decode('00ff' || lpad(to_hex(i), 2, '0'), 'hex'), "
    "array['a', null, i::text], repeat('n', 3000 + i), time '12:00:00.5', interval '1 month' "
    "from generate_series(0, 99) i",
    "create table orders (id bigint primary key, customer date not null, paid numeric(12,4) not "
    "null, at timestamp not null default '2024-02-29 12:34:56.123456')",
    "insert into orders select i, date '2024-01-01' + i % 100, i / 8.0 from generate_series(1, "
    "500) i",
    "create table reading (id int primary key, at timestamp, value float8, raw bytea)",
    "insert into reading select i, timestamp '2024-01-01' + i * interval '1 us', i / 3.0, "
    "decode('ff', 'hex') from generate_series(1, 50) i",
)
CHANGES = (
    "update customer set credit = credit + 0.01 where id > '2024-03-01'",  # leaves large values
    "update customer set note = repeat('m', 4000), photo = null where id < '2024-01-11'",
    "update customer set id = date '1999-12-31' where id = '2024-01-05'",
    "update orders set customer = '1999-12-31' where customer = '2024-01-05'",
    "delete from customer where id = '2024-01-07'",
    "insert into customer (id, name, born, credit) values ('0044-03-15 BC', 'Caesar',"
    " '9999-12-31 23:59:59.999', -0.5)",
    "alter table orders add column city text default 'here'",
    "insert into orders values (900, '0044-03-15 BC', 12.5, '0001-01-01 00:00:00.000001', 'Roma')",
    "update reading set value = '-0', at = '0001-01-01 00:00:00.000001' where id = 3",
    "delete from reading where id = 4",
)
JOINED = (
    "select o.id, o.paid, o.at, c.name, c.id as day, c.born, c.credit, c.photo, c.tags, c.note,"
    " c.seen from orders o left join customer c on c.id = o.customer"
)
FORM = 'preset = "debezium"\nskipped.operations = "none"\n'


@pytest.fixture
def shop(deployment: Deployment, lender: Lender, redis_server: str) -> Deployment:
    deployment.jvm = lender
    deployment.execute(*TABLES)
    declare(deployment, redis_server, FORM)
    deployment.init()
    return deployment


def declare(shop: Deployment, redis_url: str, form: str, **more: str) -> None:
    views = {"joined": JOINED, "readings": "select id, at, value, raw from reading", **more}
    shop.extra = (
        f'[events]\n{form}[stores.cache]\nkind = "redis"\nurl = "{redis_url}"\n'
        f'[apply]\nstate = "{shop.home / "state"}"\n[tables."public.reading"]\nmirror = false\n'
    ) + "".join(
        f'[views.{shop.name}_{name}]\nstore = "cache"\nkey = ["id"]\nsql = "{sql}"\n'
        for name, sql in views.items()
    )
    shop.write()


def test_views_over_topics_in_debeziums_own_form_are_equal(
    shop: Deployment, redis_server: str
) -> None:
    views = f"{shop.name}_joined", f"{shop.name}_readings"
    with shop.running("capture") as capture, shop.running("apply", "--json"):
        shop.captured(capture)
        done(shop, "wait", *views, "--timeout", "300")
        shop.execute(*CHANGES)
        shop.captured(capture)
        done(shop, "wait", *views, "--timeout", "120")
        for view in views:
            report = json.loads(done(shop, "verify", view, "--json"))
            assert report["equal"], report
            assert report["source_rows"] > 40
        found = json.loads(done(shop, "trace", "customer", "1999-12-31", "--json"))
        assert [one["op"] for one in found["changes"]] == ["insert"]
        shop.execute("truncate reading", "truncate orders", "insert into orders values "
                     "(1, '2024-02-01', 1.5)")  # fmt: skip
        shop.captured(capture)
        done(shop, "wait", *views, "--timeout", "120")
        for view, rows in zip(views, (1, 0), strict=True):
            report = json.loads(done(shop, "verify", view, "--json"))
            assert (report["equal"], report["view_rows"]) == (True, rows), report
    declare(shop, redis_server, FORM, spans="select id, span from customer")
    _, found = shop.check()
    told = {one["check"]: one["message"] for one in found["error"]}
    message = told[f"view {shop.name}_spans"]
    assert "reads span of public.customer" in message
    assert "interval.handling.mode = numeric" in message


def test_views_are_refused_where_changes_are_not_published(
    shop: Deployment, redis_server: str
) -> None:
    """Truncates, with what Debezium skips unless it is told otherwise."""
    declare(shop, redis_server, 'preset = "debezium"\n')
    for command in (("check",), ("apply",)):
        ended = shop.run(*command)
        assert ended.returncode == 1, ended.stdout
        assert "skips operations: t" in ended.stdout + ended.stderr
        assert 'skipped.operations = "none"' in ended.stdout + ended.stderr
