"""A table that conditions are tried on, and a row of it."""

from __future__ import annotations

from typing import Any

from cdc.protocol.relation import Column, Relation, TypeInfo


def column(name: str, base: str, key: bool = False, collation: str = "") -> Column:
    return Column(name, TypeInfo(1, "pg_catalog", base, "base", base), -1, key, collation=collation)


COLUMNS = (
    column("id", "int4", key=True),
    column("status", "text"),
    column("total", "numeric"),
    column("weight", "float8"),
    column("paid", "bool"),
    column("at", "timestamptz"),
    column("code", "text", collation="public.blind"),
    column("Odd name", "uuid"),
    column("rate", "float4"),
)
ORDERS = Relation(1, "public", "orders", "d", COLUMNS, ("id",))
FULL = Relation(1, "public", "orders", "f", COLUMNS, ("id",))
KEYLESS = Relation(1, "public", "orders", "f", COLUMNS, ())
ROW: dict[str, Any] = {
    "id": 7, "status": "open", "total": "1000.50", "weight": 0.1, "paid": True, "at": "x",
    "code": "a", "Odd name": "6f8b3c1e-0000-4000-8000-00000000000a", "rate": 0.1,
}  # fmt: skip
