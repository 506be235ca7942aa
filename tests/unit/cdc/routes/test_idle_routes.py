"""Routes that are of no table are told."""

from __future__ import annotations

from cdc.routes.faults import idle_routes
from cdc.routes.route import Route

TABLES = [("public", "orders"), ("public", "order_lines"), ("public", "customers")]


def idle(*routes: Route) -> list[tuple[str, str]]:
    return list(idle_routes("shop", routes, TABLES))


def test_a_route_that_fits_no_table_is_told() -> None:
    of_orders = Route("{source}.o", ("public.order*",), key_field="__table")
    assert idle(of_orders) == []
    [(told, way)] = idle(of_orders, Route("c", ("public.costumers",)))
    assert told == "route 2 fits no table that source.tables chooses"
    assert way == "correct its tables or match (of schema.table), or remove it"


def test_a_route_whose_tables_earlier_ones_take_is_told() -> None:
    every = Route("{source}.all", ("public.*",), key_field="__table")
    [(told, way)] = idle(every, Route("c", ("public.customers",)))
    assert told == "route 2 is not used: earlier routes fit all of its tables"
    assert way.startswith("put it before the others")
    assert idle(Route("c", ("public.customers",)), every) == []
