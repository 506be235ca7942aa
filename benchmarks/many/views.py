"""The ten views of the shop, those that are built beside them, and their configuration. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple


class View(NamedTuple):
    """A view; its column ``mark`` shows the mark of a probe (``benchmarks.many.probes``).

    ``probed`` says by what kind of row its key is told: ``line`` and ``order``, ``customer``,
    ``product`` or ``comment``.
    """

    name: str
    store: str
    key: tuple[str, ...]
    probed: str
    sql: str
    history: str = ""

    @property
    def is_delta(self) -> bool:
        return self.store == "lake"


VIEWS: Final = (
    View(
        "product_search",
        "search",
        ("id",),
        "product",
        """
select id, sku, name, description, price, stock, tags, ages, attributes,
       attributes ->> 'color' as color, (attributes ->> 'weight_g')::numeric(10,0) as weight, mark
from products
where active
""",
    ),
    View(
        "order_summary",
        "cache",
        ("id",),
        "order",
        """
select o.id, o.status, o.total, o.placed, o.delivery, c.name as customer, c.city,
       u.email, u.preferences ->> 'language' as language, o.mark
from orders o
join customers c on c.id = o.customer_id
join users u on u.id = c.user_id
""",
    ),
    View(
        "order_documents",
        "search",
        ("id",),
        "order",
        """
select o.id, o.status, o.placed, o.total, o.shipping ->> 'carrier' as carrier,
       json_build_object('id', c.id, 'name', c.name, 'city', c.city, 'email', u.email) as customer,
       coalesce(json_agg(json_build_object('no', l.no, 'sku', p.sku, 'name', p.name,
                                           'quantity', l.quantity, 'price', l.price,
                                           'list_price', p.price)
                         order by l.no) filter (where l.no is not null), '[]') as lines, o.mark
from orders o
join customers c on c.id = o.customer_id
join users u on u.id = c.user_id
left join lines l on l.order_id = o.id
left join products p on p.id = l.product_id
group by o.id, c.id, u.id
""",
    ),
    View(
        "customer_revenue",
        "reports",
        ("id",),
        "customer",
        """
select c.id, c.name, c.city, count(o.id) as orders, sum(o.total) as revenue,
       max(o.placed) as last_order, count(*) filter (where o.status = 'returned') as returned,
       max(o.mark) as mark
from customers c
left join orders o on o.customer_id = c.id
group by c.id
""",
    ),
    View(
        "product_revenue",
        "cache",
        ("id",),
        "product",
        """
select p.id, p.name, count(l.no) as lines, sum(l.quantity) as sold,
       sum(l.quantity * l.price) as revenue, max(l.mark) as mark
from products p
left join lines l on l.product_id = p.id
group by p.id
""",
    ),
    View(
        "product_pages",
        "cache",
        ("id",),
        "product",
        """
select p.id, p.sku, p.name, p.price, p.tags, p.attributes,
       coalesce(json_agg(json_build_object('id', k.id, 'name', k.name) order by pc.position)
                filter (where k.id is not null), '[]') as categories, p.mark
from products p
left join product_categories pc on pc.product_id = p.id
left join categories k on k.id = pc.category_id
group by p.id
""",
    ),
    View(
        "product_comments",
        "reports",
        ("id",),
        "comment",
        """
select m.id, p.id as product_id, p.name as product, u.email as author, m.rating, m.body,
       m.created, m.mark
from comments m
join products p on p.id = (m.subject ->> 'id')::uuid
join users u on u.id = m.user_id
""",
    ),
    View(
        "order_lines",
        "lake",
        ("order_id", "no"),
        "line",
        """
select l.order_id, l.no, p.sku, p.name, l.quantity, l.price, l.quantity * l.price as amount,
       o.customer_id, o.status, o.placed, l.mark
from lines l
join orders o on o.id = l.order_id
join products p on p.id = l.product_id
""",
    ),
    View(
        "order_log",
        "lake",
        ("id",),
        "order",
        "select id, customer_id, status, total, placed, delivery, shipping, mark from orders",
        "log",
    ),
    View(
        "product_prices",
        "lake",
        ("id",),
        "product",
        "select id, sku, price, stock, active, updated, mark from products",
        "scd2",
    ),
)
"""As ``headwater view create`` is told them."""
_BUILT: Final = """
select l.order_id, l.no, l.quantity, l.price, o.placed, o.status, c.name as customer, c.city,
       p.sku, p.name as product
from lines l
join orders o on o.id = l.order_id
join customers c on c.id = o.customer_id
join products p on p.id = l.product_id
"""
BUILT: Final = tuple(
    View(f"built_in_{store}", store, ("order_id", "no"), "line", _BUILT)
    for store in ("cache", "search", "reports", "lake")
)
"""As many rows as there are lines, from tables that the ten read as well."""
STORES: Final[Mapping[str, str]] = {
    "cache": "Redis",
    "search": "OpenSearch",
    "reports": "PostgreSQL",
    "lake": "Delta",
}


def store_lines(redis: str, opensearch: str, postgres: str, lake: str) -> Iterator[str]:
    """The stores of a configuration, by their addresses."""
    yield f'[stores.cache]\nkind = "redis"\nurl = "{redis}"'
    yield f'[stores.search]\nkind = "opensearch"\nurl = "{opensearch}"'
    yield f'[stores.reports]\nkind = "postgres"\ndsn = "{postgres}"'
    yield f'[stores.lake]\nkind = "delta"\npath = "{lake}"'


def view_lines(views: Iterable[View]) -> Iterator[str]:
    """The views of a configuration."""
    for view in views:
        key = ", ".join(f'"{column}"' for column in view.key)
        yield f'[views.{view.name}]\nstore = "{view.store}"\nkey = [{key}]'
        if view.history:
            yield f'history = "{view.history}"'
        yield f'sql = """{view.sql}"""'
