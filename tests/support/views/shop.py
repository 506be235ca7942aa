"""The tables of a shop, as the log describes them."""

from __future__ import annotations

from views.table_versions import TableColumn, TableVersion
from views.types import BOOL, DATE, FLOAT8, INT4, INT8, TEXT, PgType, numeric


def _table(table: str, key: tuple[str, ...], columns: dict[str, PgType]) -> TableVersion:
    found = tuple(TableColumn(name, kind, name not in key) for name, kind in columns.items())
    return TableVersion(table[0] * 16, "public", table, found, key)


TABLES = {
    table.name: table
    for table in (
        _table("orders", ("id",), {
            "id": INT4, "customer_id": INT4, "total": numeric(10, 2), "note": TEXT, "day": DATE,
            "paid": BOOL, "big": INT8, "score": FLOAT8, "amount": PgType("numeric"),
            "tags": PgType("array", element="text"), "extra": PgType("jsonb"),
        }),
        _table("customers", ("id",), {
            "id": INT4, "name": TEXT, "region": TEXT, "parent_id": INT4,
        }),
        _table("regions", ("code",), {"code": TEXT, "name": TEXT}),
        _table("lines", ("order_id", "no"), {
            "order_id": INT4, "no": INT4, "sku": TEXT, "qty": INT4,
        }),
        _table("products", ("sku",), {"sku": TEXT, "price": numeric(8, 2)}),
    )
}  # fmt: skip
