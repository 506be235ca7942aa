"""The deployment whose state is recorded: two tables, and a view of each kind. Pure.

Names are fixed, for they are in every recorded file; servers and folders are filled in.
"""

from __future__ import annotations

from typing import Final

SOURCE: Final = "upgraded"
STORE_DATABASE: Final = "upgraded_reports"
STATE_DATABASE: Final = "upgraded_state"
DATABASES: Final = (SOURCE, STATE_DATABASE, STORE_DATABASE)
TABLES: Final = """
create type grade as enum ('new', 'regular', 'gold');
create table customers (
    id integer primary key, name text not null, grade grade not null, notes jsonb
);
create table orders (
    id bigint primary key, customer_id integer not null, total numeric(10, 2) not null,
    parts integer not null, placed timestamptz not null, remark text
);
create table visits (id bigint primary key, page text not null, at timestamptz not null);
insert into customers
select i, 'Customer ' || i, (array['new', 'regular', 'gold'])[1 + i % 3]::grade,
       jsonb_build_object('no', i) from generate_series(1, 12) i;
insert into orders
select i, 1 + i % 12, i * 1.25, 1 + i % 4,
       timestamptz '2026-01-01 00:00+00' + i * interval '1 hour',
       case when i % 3 = 0 then repeat('remark ', 3) end from generate_series(1, 40) i;
insert into visits
select i, '/page/' || i % 5, timestamptz '2026-02-01 00:00+00' + i * interval '1 minute'
from generate_series(1, 20) i;
"""
CHANGES: Final = (
    "update orders set total = total + 1 where id % 4 = 0",
    "update customers set grade = 'gold', name = name || ' the Great' where id = 5",
    "delete from orders where id = 7",
    "insert into orders select i, 3, i, 2, '2026-03-01 00:00+00', null"
    " from generate_series(101, 105) i",
    "insert into visits values (101, '/new', '2026-03-01 00:00+00')",
    "update orders set parts = 0 where id = 11",
)
"""The last one parks a key of ``up_prices``: nothing is divided by it."""
VIEWS: Final = """
[views.up_orders]
store = "cache"
key = ["id"]
sql = '''
select o.id, o.total, o.placed, c.name, c.grade, c.notes
from orders o join customers c on c.id = o.customer_id'''
[views.up_totals]
store = "reports"
key = ["id"]
sql = '''
select c.id, c.name, count(o.id) as orders, sum(o.total) as total
from customers c left join orders o on o.customer_id = c.id group by c.id'''
[views.up_prices]
store = "cache"
key = ["id"]
sql = "select id, total / parts as price from orders"
[views.up_versions]
store = "lake"
key = ["id"]
history = "scd2"
sql = "select id, customer_id, total, remark from orders"
[views.up_visits]
store = "lake"
key = ["id"]
sql = "select id, page, at from visits"
"""
VIEW_NAMES: Final = ("up_orders", "up_totals", "up_prices", "up_versions", "up_visits")


def stores(redis_url: str, reports_dsn: str, state_dsn: str, state: str, lake: str) -> str:
    """The configuration behind [source] and [kafka]."""
    return (
        f'[apply]\nstate = "{state}"\nstate_dsn = "{state_dsn}"\nmaster = "local[1]"\n'
        f'[stores.cache]\nkind = "redis"\nurl = "{redis_url}"\n'
        f'[stores.reports]\nkind = "postgres"\ndsn = "{reports_dsn}"\n'
        f'[stores.lake]\nkind = "delta"\npath = "{lake}"\n'
        f'[tables."public.visits"]\nmirror = false\n{VIEWS}'
    )
