"""The tables of ``shop.sql`` as mirrors, without a database."""

from __future__ import annotations

from views.maintain import MirrorColumn, MirrorTable

_SEVERAL_TEXTS = ("numeric(8,2)", "numeric(10,2)", "jsonb", "text[]")


def _table(name: str, key: tuple[str, ...], columns: str) -> MirrorTable:
    """``columns`` are names and types, with ! behind those that are not null."""
    made = []
    for item in columns.split("; "):
        column, _, kind = item.rstrip("!").partition(" ")
        nullable = not item.endswith("!") and column not in key
        made.append(MirrorColumn(column, kind, nullable, kind not in _SEVERAL_TEXTS))
    return MirrorTable("public", name, tuple(made), key)


TABLES = {
    table.table: table
    for table in (
        _table("customers", ("id",),
               "id integer; name text!; city text; referred_by integer; vip boolean!"),
        _table("products", ("sku",), "sku text; name text!; price numeric(8,2)!; category text"),
        _table("orders", ("id",),
               "id integer; customer_id integer; placed timestamp with time zone!; status text!; "
               "total numeric(10,2); note text; tags text[]; extra jsonb"),
        _table("lines", ("order_id", "no"),
               "order_id integer; no integer; sku text!; quantity integer!"),
        _table("payments", ("id",),
               "id integer; order_id integer; amount numeric(10,2)!; "
               "paid timestamp with time zone!; method text"),
    )
}  # fmt: skip
