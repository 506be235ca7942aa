"""A table that nobody captures is told with its place, and with the one that may be meant."""

from __future__ import annotations

import pytest

from views.parse.definition import parse_view
from views.parse.uncaptured_tables import uncaptured

CAPTURED = (
    "public.orders", "sales.offers", "sales.leads", "crm.leads", 'public.Mixed"Case', "Shop.Parts",
)  # fmt: skip


@pytest.mark.parametrize(
    ("read", "hint"),
    [
        ("order", "Did you mean public.orders? Otherwise add it to source.tables."),
        ("public.ordesr", "Did you mean public.orders? Otherwise add it to source.tables."),
        ("ORDRES", "Did you mean public.orders? Otherwise add it to source.tables."),
        ("offers", "Write sales.offers; or add it to source.tables."),
        ("leads", "Write crm.leads or sales.leads; or add it to source.tables."),
        ('"Parts"', 'Write "Shop"."Parts"; or add it to source.tables.'),
        ("mixedcase", 'Did you mean public."Mixed""Case"? Otherwise add it to source.tables.'),
        ("crm.offers", "Did you mean sales.offers? Otherwise add it to source.tables."),
        ("crm.orders", "Did you mean public.orders? Otherwise add it to source.tables."),
        ("visits", 'Use a captured table (Shop.Parts, crm.leads, public.Mixed"Case, public.orders,'
                  " sales.leads, sales.offers), or add it to source.tables."),
    ],
)  # fmt: skip
def test_the_place_and_what_is_meant(read: str, hint: str) -> None:
    sql = f"select o.id\nfrom lines o\njoin {read} x on x.id = o.id"
    definition = parse_view("v", "s", ["id"], sql)
    table = definition.table_names[1]
    error = uncaptured(definition, table, CAPTURED)
    assert error.message.startswith("views.v.sql, line 3, column 6: ")
    assert error.message.endswith(f": table {table} is not captured")
    assert error.hint == hint


def test_nothing_is_suggested_where_nothing_is_captured() -> None:
    definition = parse_view("v", "s", ["id"], "select id from t")
    error = uncaptured(
        definition, "public.t", (), "run `headwater init`", ": Kafka has no topic x.t"
    )
    assert str(error) == (
        "views.v.sql, line 1, column 16: t: table public.t is not captured: Kafka has no topic x.t."
        " Run `headwater init`."
    )
