"""What the shop's application commits: a mix of transactions, from a seed. Pure.

A transaction locks one product and one order at most, so sessions side by side never wait for
each other in a circle.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from benchmarks.many.shop import CITIES, LINES, STATUSES, Sizes, uuid_text

MIX: Final = {
    "order": 20,
    "status": 40,
    "price": 10,
    "comment": 12,
    "customer": 12,
    "delete order": 3,
    "delete comment": 3,
}
"""Of a hundred transactions."""

Statement = tuple[str, tuple[object, ...]]
"""SQL and its parameters."""


class Transaction(NamedTuple):
    """What is committed at once."""

    kind: str
    statements: tuple[Statement, ...]


_NEW_ORDER: Final = (
    "insert into orders (id, customer_id, status, placed, total, delivery, shipping)"
    " values (%s, %s, 'new', now(), %s, tstzrange(now(), now() + interval '3 days'),"
    """ '{"carrier": "post", "parcel": {"weight": 1.20}}')"""
)
_NEW_LINES: Final = (
    "insert into lines (order_id, no, product_id, quantity, price)"
    " select %s, n, product, quantity, 1 + quantity * 3.75"
    " from unnest(%s::uuid[], %s::int[]) with ordinality as t (product, quantity, n)"
)
_STOCK: Final = "update products set stock = stock - %s where id = %s"
_STATUS: Final = "update orders set status = %s::order_status where id = %s"
_PRICE: Final = "update products set price = %s::numeric, updated = now() where id = %s"
_COMMENT: Final = (
    "insert into comments (id, user_id, subject, body, rating, created)"
    " values (%s, %s, jsonb_build_object('kind', 'product', 'id', %s::text), %s, %s, now())"
)
_CUSTOMER: Final = "update customers set city = %s, updated = now() where id = %s"
_DELETE_LINES: Final = "delete from lines where order_id = %s"
_DELETE_ORDER: Final = "delete from orders where id = %s"
_DELETE_COMMENT: Final = "delete from comments where id = %s"


def transactions(sizes: Sizes, seed: int, first: int) -> Iterator[Transaction]:
    """Without an end. New rows are numbered from ``first`` on; same input, same transactions."""
    chance = random.Random(seed)
    kinds, weights = list(MIX), list(MIX.values())
    number = first
    while True:
        kind = chance.choices(kinds, weights)[0]
        yield Transaction(kind, tuple(_statements(kind, sizes, chance, first, number)))
        number += 1


def _statements(
    kind: str, sizes: Sizes, chance: random.Random, first: int, number: int
) -> Iterator[Statement]:
    product = uuid_text("product", chance.randint(1, sizes.products))
    customer = chance.randint(1, sizes.customers)
    match kind:
        case "order":
            yield from _new_order(sizes, chance, number, customer)
        case "status":
            # Half of the changes are of orders that have just come, where there are any.
            recent = number > first and chance.random() < 0.5
            low, high = (max(first, number - 200), number - 1) if recent else (1, sizes.orders)
            yield _STATUS, (chance.choice(STATUSES), chance.randint(low, high))
        case "price":
            yield _PRICE, (f"{chance.randint(100, 30_000) / 100:.2f}", product)
        case "comment":
            key, user = uuid_text("comment", number), uuid_text("user", customer)
            yield _COMMENT, (key, user, product, f"Comment {number}", chance.randint(1, 5))
        case "customer":
            yield _CUSTOMER, (f"City {chance.randrange(CITIES)}", customer)
        case "delete order":
            order = chance.randint(1, sizes.orders)
            yield _DELETE_LINES, (order,)
            yield _DELETE_ORDER, (order,)
        case _:
            yield _DELETE_COMMENT, (uuid_text("comment", chance.randint(1, sizes.comments)),)


def _new_order(
    sizes: Sizes, chance: random.Random, number: int, customer: int
) -> Iterator[Statement]:
    """An order, its lines, and the stock of its first product."""
    bought = chance.sample(range(1, sizes.products + 1), chance.randint(1, LINES))
    products = [uuid_text("product", one) for one in bought]
    quantities = [chance.randint(1, 4) for _ in bought]
    yield _NEW_ORDER, (number, customer, chance.randint(500, 50_000) / 100)
    yield _NEW_LINES, (number, products, quantities)
    yield _STOCK, (quantities[0], products[0])
