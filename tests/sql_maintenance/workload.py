"""Random transactions of the shop: few keys, so that rows meet, go, and come again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

_CITIES: Final = ("'Ulm'", "'Bonn'", "'Rome'", "null")
_STATUS: Final = ("'open'", "'done'", "'late'")
_SKUS: Final = "ABCDEFG"


def transaction(generator: random.Random) -> str:
    """The statements of one transaction, as one text."""
    statements = [generator.choice(_KINDS)(generator) for _ in range(generator.randint(1, 4))]
    return f"begin; {'; '.join(statements)}; commit"


def _customer(of: random.Random) -> str:
    id_ = of.randint(1, 8)
    below = of.choice(("null", str(of.randint(1, id_)))) if id_ > 1 else "null"
    below = "null" if below == str(id_) else below
    city, vip = of.choice(_CITIES), of.choice(("true", "false"))
    return (
        f"insert into customers values ({id_}, 'n{of.randint(1, 4)}', {city}, {below}, {vip}) "
        "on conflict (id) do update set name = excluded.name, city = excluded.city, "
        "referred_by = excluded.referred_by, vip = excluded.vip"
    )


def _product(of: random.Random) -> str:
    category = of.choice(("'fruit'", "'bakery'", "'tools'", "null"))
    return (
        f"insert into products values ('{of.choice(_SKUS)}', 'p', {of.randint(1, 20)}.50, "
        f"{category}) on conflict (sku) do update set price = excluded.price, "
        "category = excluded.category"
    )


def _order(of: random.Random) -> str:
    customer = of.choice(("null", str(of.randint(1, 9))))
    total = of.choice(("null", str(of.randint(1, 40))))
    day, tags = of.randint(1, 9), of.choice(("null", "'{}'", "'{a,b}'", "'{gift,fast}'"))
    return (
        f"insert into orders values ({of.randint(10, 24)}, {customer}, '2026-01-0{day} 10:00Z', "
        f"{of.choice(_STATUS)}, {total}, 'n{of.randint(1, 3)}', {tags}, null) "
        "on conflict (id) do update set customer_id = excluded.customer_id, "
        "status = excluded.status, total = excluded.total, tags = excluded.tags, "
        "placed = excluded.placed"
    )


def _line(of: random.Random) -> str:
    return (
        f"insert into lines values ({of.randint(10, 24)}, {of.randint(1, 3)}, "
        f"'{of.choice(_SKUS)}', {of.randint(0, 5)}) "
        "on conflict (order_id, no) do update set sku = excluded.sku, quantity = excluded.quantity"
    )


def _payment(of: random.Random) -> str:
    return (
        f"insert into payments values ({of.randint(100, 108)}, {of.randint(10, 24)}, "
        f"{of.randint(1, 30)}, '2026-01-0{of.randint(1, 9)} 00:00Z', 'card') "
        "on conflict (id) do update set order_id = excluded.order_id, amount = excluded.amount"
    )


def _deletion(of: random.Random) -> str:
    return of.choice(
        (
            f"delete from customers where id = {of.randint(1, 8)}",
            f"delete from orders where id = {of.randint(10, 24)}",
            f"delete from lines where order_id = {of.randint(10, 24)}",
            f"delete from payments where id = {of.randint(100, 108)}",
            f"delete from products where sku = '{of.choice(_SKUS)}'",
        )
    )


def _change_of_key(of: random.Random) -> str:
    id_, order = of.randint(30, 33), of.randint(10, 24)
    return (
        f"delete from lines where order_id = {order} and no > 10; "
        f"update lines set no = no + 10 where order_id = {order}; "
        f"delete from orders where id = {id_}; update orders set id = {id_} where id = {order}"
    )


def _truncate(of: random.Random) -> str:
    return "truncate payments" if of.random() < 0.2 else "update orders set note = note || '.'"


_KINDS: Final[tuple[Callable[[random.Random], str], ...]] = (
    *(_customer, _product, _order, _order, _line, _line, _payment, _deletion, _deletion),
    *(_change_of_key, _truncate),
)
