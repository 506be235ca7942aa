"""Tables, and views of several rows of them, as docs/sql.md declares them."""

from __future__ import annotations

TABLES = """
create table customers (id int primary key, name text not null, city text, referred_by int);
create table products (sku text primary key, name text not null, price numeric(8,2) not null);
create table orders (id int primary key, customer_id int not null, total numeric(10,2) not null,
                     placed timestamptz not null, shipped boolean not null, note text, tags text[],
                     extra jsonb, weight double precision, made date, took interval, rate real,
                     exact numeric, raw bytea, at timestamp);
create table lines (order_id int, no int, sku text not null, quantity int not null,
                    primary key (order_id, no));
insert into customers values (1, 'A "q"', 'Ulm', null), (2, 'B', null, 1), (3, 'none', 'X', 1);
insert into products values ('a', 'Apple', 1.50), ('b', 'Bü\\x', 0.10);
insert into orders values
  (1, 1, 10.00, '2024-02-29 12:00:00.12Z', true, 'n', '{x,NULL,"a,b"}', '{"a": 1.0, "b": [1]}',
   3, '2024-02-29', '1 day', 0.1, 'NaN', '\\x00ff', '2024-02-29 12:00:00.5'),
  (2, 1, 0.50, '2024-03-01Z', false, null, '{}', '[]', 'NaN', '0044-03-15 BC', null, '-0', 1.50,
   '\\x', '12345-01-01'),
  (3, 2, 7.25, '1969-12-31 23:59:59.999999Z', true, '', null, null, -0.0, null, '-1.5 sec', null,
   null, null, null);
insert into lines values (1, 1, 'a', 2), (1, 2, 'b', 1), (2, 1, 'zz', 3), (2, 2, 'a', 1);
"""
ORDER_FIELDS = (
    "'id', o.id, 'total', o.total, 'placed', o.placed, 'shipped', o.shipped, 'note', o.note,"
    " 'tags', o.tags, 'extra', o.extra, 'weight', o.weight, 'made', o.made, 'took', o.took,"
    " 'rate', o.rate, 'exact', o.exact, 'raw', o.raw, 'at', o.at"
)
VIEWS: dict[str, tuple[tuple[str, ...], str]] = {
    "order_documents": (
        ("id",),
        """select o.id, o.placed, json_build_object('id', c.id, 'name', c.name) as customer,
       coalesce(json_agg(json_build_object('sku', l.sku, 'name', p.name, 'quantity', l.quantity)
                         order by l.no) filter (where l.no is not null), '[]') as lines
from orders o
join customers c on c.id = o.customer_id
left join lines l on l.order_id = o.id
left join products p on p.sku = l.sku
group by o.id, c.id""",
    ),
    "customers_with_orders": (
        ("id",),
        """select c.id, c.name, json_agg(json_build_object('id', o.id, 'total', o.total,
  'placed', o.placed) order by o.id) as orders,
       array_agg(o.total order by o.total desc) filter (where o.shipped) as shipped_totals
from customers c left join orders o on o.customer_id = c.id
group by c.id""",
    ),
    "parcel_documents": (
        ("id",),
        "select id, json_build_object('weight', weight, 'tags', tags) as parcel, note"
        " from orders where shipped",
    ),
    "every_type": (("id",), f"select o.id, json_build_object({ORDER_FIELDS}) as o from orders o"),
    "every_type_jsonb": (
        ("id",),
        f"select o.id, jsonb_build_object({ORDER_FIELDS}) as o from orders o",
    ),
    "lists_of_every_type": (
        ("id",),
        f"select c.id, json_agg(json_build_object({ORDER_FIELDS}, 'of', json_build_object('n',"
        " c.name, 't', o.total)) order by o.id) as all from customers c"
        " left join orders o on o.customer_id = c.id group by c.id".replace(" as all", ' as "all"'),
    ),
    "agg_of_objects_and_values": (
        ("id",),
        "select c.id, array_agg(json_build_object('t', o.total) order by o.id) as a,"
        " json_agg(o.total order by o.id) as b, jsonb_agg(o.note order by o.id) as d,"
        " json_agg(o.placed order by o.id) as e"
        " from customers c join orders o on o.customer_id = c.id group by c.id",
    ),
    "sales": (
        ("city",),
        """select coalesce(c.city, 'unknown') as city, count(*) as orders, sum(o.total) as total,
       round(avg(o.total), 2) as mean, avg(o.total) as exact, max(o.total) as largest,
       min(c.name collate "C") as first_name, bool_and(o.shipped) as all_shipped, sum(o.id) as ids
from orders o left join customers c on c.id = o.customer_id group by 1""",
    ),
}
