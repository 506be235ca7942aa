"""The database of a small shop: its tables, and rows made of their numbers. Pure.

Beside the rows that the load changes there are ``PROBES`` orders, customers, products and comments
that only probes change (``benchmarks.many.probes``). Their numbers begin at ``PROBE``.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5
from typing import Final, NamedTuple
from uuid import UUID

PROBE: Final = 1_000_000
"""The number of the first row that belongs to probes."""
PROBES: Final = 200
"""Probes write to one row after the other, and to the first one again after so many."""
LINES: Final = 7
"""An order has one line at least and so many at most, four on average."""
STATUSES: Final = ("new", "paid", "packed", "sent", "returned")
CITIES: Final = 120

TABLES: Final = """
create type user_role as enum ('customer', 'editor', 'admin');
create type order_status as enum ('new', 'paid', 'packed', 'sent', 'returned');
create table users (
    id uuid primary key,
    email text not null,
    role user_role not null,
    display text generated always as (split_part(email, '@', 1)) stored,
    preferences jsonb not null,
    tags text[] not null,
    joined timestamptz not null
);
create table customers (
    id integer primary key,
    user_id uuid not null,
    name text not null,
    city text not null,
    address jsonb not null,
    credit numeric(10, 2) not null,
    updated timestamptz not null
);
create table categories (
    id integer primary key,
    parent_id integer,
    name text not null,
    position smallint not null
);
create table products (
    id uuid primary key,
    sku text not null,
    name text not null,
    description text not null,
    price numeric(10, 2) not null,
    gross numeric(10, 2) generated always as (round(price * 1.19, 2)) stored,
    stock integer not null,
    active boolean not null,
    attributes jsonb not null,
    tags text[] not null,
    ages int4range not null,
    updated timestamptz not null,
    mark bigint not null default 0
);
create table product_categories (
    product_id uuid not null,
    category_id integer not null,
    position smallint not null,
    primary key (product_id, category_id)
);
create table orders (
    id bigint primary key,
    customer_id integer not null,
    status order_status not null,
    placed timestamptz not null,
    total numeric(12, 2) not null,
    delivery tstzrange not null,
    shipping json not null,
    note text,
    mark bigint not null default 0
);
create table lines (
    order_id bigint not null,
    no smallint not null,
    product_id uuid not null,
    quantity integer not null,
    price numeric(10, 2) not null,
    amount numeric(12, 2) generated always as (price * quantity) stored,
    mark bigint not null default 0,
    primary key (order_id, no)
);
create table comments (
    id uuid primary key,
    user_id uuid not null,
    subject jsonb not null,
    body text not null,
    rating smallint,
    created timestamptz not null,
    mark bigint not null default 0
);
create index on customers (user_id);
create index on orders (customer_id);
create index on lines (product_id);
create index on product_categories (category_id);
"""
NAMES: Final = (
    "users",
    "customers",
    "categories",
    "products",
    "product_categories",
    "orders",
    "lines",
    "comments",
)


class Sizes(NamedTuple):
    """Rows of each kind, without those of probes. An order has four lines on average."""

    customers: int
    products: int
    categories: int
    orders: int
    comments: int

    def scaled(self, part: float) -> Sizes:
        """So many of everything, a few at least."""
        return Sizes(*(max(20, round(count * part)) for count in self))


FULL: Final = Sizes(customers=2_000, products=700, categories=40, orders=10_000, comments=3_000)


def uuid_of(kind: str, number: str) -> str:
    """The SQL of the key of a row by its number, which is SQL itself."""
    return f"md5('{kind} ' || ({number}))::uuid"


def uuid_text(kind: str, number: int) -> str:
    """The same key, computed here."""
    return str(UUID(md5(f"{kind} {number}".encode(), usedforsecurity=False).hexdigest()))


def row_sql(sizes: Sizes) -> Iterator[tuple[str, str]]:
    """Tables and the statements that fill them, in an order in which each finds what it names."""
    yield "users", _USERS.format(rows=_numbers(sizes.customers))
    yield "customers", _CUSTOMERS.format(rows=_numbers(sizes.customers))
    yield "categories", _CATEGORIES.format(rows=sizes.categories)
    yield "products", _PRODUCTS.format(rows=_numbers(sizes.products))
    yield (
        "product_categories",
        _PRODUCT_CATEGORIES.format(rows=_numbers(sizes.products), categories=sizes.categories),
    )
    yield (
        "orders",
        _ORDERS.format(rows=_numbers(sizes.orders), customer=_belongs(sizes.customers, "i * 7919")),
    )
    yield (
        "lines",
        _LINES.format(
            rows=_numbers(sizes.orders), product=_belongs(sizes.products, "i * 31 + no * 101")
        ),
    )
    yield (
        "comments",
        _COMMENTS.format(
            rows=_numbers(sizes.comments),
            customer=_belongs(sizes.customers, "i * 13"),
            product=_belongs(sizes.products, "i * 17"),
        ),
    )


def _numbers(count: int) -> str:
    """Numbers of ordinary rows and of those of probes, as ``i``."""
    return (
        f"(select generate_series(1, {count}::bigint) as i union all"
        f" select generate_series({PROBE}, {PROBE + PROBES - 1})) as numbers"
    )


def _belongs(count: int, spread: str) -> str:
    """The number of a row that another one belongs to: a probe's has one of its own."""
    return f"case when i >= {PROBE} then i else 1 + mod({spread}, {count}) end"


_USERS: Final = f"""
insert into users (id, email, role, preferences, tags, joined)
select {uuid_of("user", "i")}, 'user' || i || '@shop.example',
       (case when mod(i, 50) = 0 then 'editor' else 'customer' end)::user_role,
       jsonb_build_object('language', (array['de', 'en', 'fr'])[1 + mod(i, 3)],
                          'newsletter', mod(i, 4) = 0, 'theme', jsonb_build_object('dark', true)),
       array['since ' || (2015 + mod(i, 10)), 'group ' || mod(i, 7)],
       timestamptz '2020-01-01 00:00:00+00' + mod(i, 300000) * interval '37 minutes'
from {{rows}}
"""
_CUSTOMERS: Final = f"""
insert into customers
select i, {uuid_of("user", "i")}, 'Customer ' || substr(md5(i::text), 1, 10),
       'City ' || mod(i, {CITIES}),
       jsonb_build_object('street', 'Street ' || mod(i * 17, 900), 'no', mod(i, 80),
                          'zip', lpad(mod(i * 7919, 100000)::text, 5, '0')),
       mod(i * 13, 100000) / 100.0,
       timestamptz '2024-01-01 00:00:00+00' + mod(i, 300000) * interval '3 minutes'
from {{rows}}
"""
_CATEGORIES: Final = """
insert into categories
select i, nullif(i / 6, 0), 'Category ' || i, mod(i, 12) from generate_series(1, {rows}) as i
"""
_PRODUCTS: Final = f"""
insert into products (id, sku, name, description, price, stock, active, attributes, tags, ages,
                      updated)
select {uuid_of("product", "i")}, 'SKU-' || lpad(i::text, 8, '0'),
       'Product ' || substr(md5(i::text), 1, 8),
       md5(i::text) || ' ' || md5((i * 3)::text) || ' ' || md5((i * 7)::text),
       1 + mod(i * 7919, 30000) / 100.0, 100000, true,
       jsonb_build_object('color', (array['red', 'blue', 'green', 'black'])[1 + mod(i, 4)],
                          'weight_g', 50 + mod(i * 31, 5000),
                          'sizes', jsonb_build_array('S', 'M', 'L')),
       array['tag ' || mod(i, 20), 'tag ' || mod(i * 3, 50)], int4range(mod(i, 12)::int, 99),
       timestamptz '2024-06-01 00:00:00+00' + mod(i, 300000) * interval '11 minutes'
from {{rows}}
"""
_PRODUCT_CATEGORIES: Final = f"""
insert into product_categories
select {uuid_of("product", "i")}, 1 + mod(i * 7 + n * 11, {{categories}}), n
from {{rows}}, generate_series(1, 1 + mod(i, 3)) as n
on conflict do nothing
"""
_ORDERS: Final = """
insert into orders
select i, {customer}, (array['sent', 'sent', 'paid', 'packed', 'returned'])[1 + mod(i, 5)]
         ::order_status,
       placed, mod(i * 7919, 50000) / 100.0 + 5,
       tstzrange(placed + interval '1 day', placed + interval '4 days'),
       json_build_object('carrier', (array['post', 'courier'])[1 + mod(i, 2)],
                         'parcel', json_build_object('weight', mod(i, 900) / 100.0)),
       case when mod(i, 6) = 0 then 'please ring ' || mod(i, 4) || ' times' end
from {rows}, lateral (
    select timestamptz '2025-01-01 00:00:00+00' + mod(i, 300000) * interval '1 minute'
) as t (placed)
"""
_LINES: Final = f"""
insert into lines (order_id, no, product_id, quantity, price)
select i, no, {uuid_of("product", "{product}")}, 1 + mod(i + no, 4),
       1 + mod((i * 31 + no * 101) * 7919, 30000) / 100.0
from {{rows}}, generate_series(1, 1 + mod(i * 7919, {LINES})) as no
"""
_COMMENTS: Final = f"""
insert into comments
select {uuid_of("comment", "i")}, {uuid_of("user", "{customer}")},
       jsonb_build_object('kind', 'product', 'id', {uuid_of("product", "{product}")}),
       'About this: ' || md5(i::text) || ' ' || md5((-i)::text), 1 + mod(i, 5),
       timestamptz '2025-02-01 00:00:00+00' + mod(i, 300000) * interval '17 minutes'
from {{rows}}
"""
