"""What a person sees of one view."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from headwater.cli.view.show import shown
from tests.support.views.shop import TABLES
from views.parse.definition import parse_view
from views.spark.description import Plan, plan
from views.spark.view import resolve_view

ONE = "select id, total * 100 as cents, note from orders where not paid"
JOINED = """select o.id, o.total, coalesce(c.name, '-') as name
from orders o left join customers c on c.id = o.customer_id"""
GROUPED = """select c.region, count(l.sku) as n from customers c
join orders o on o.customer_id = c.id join lines l on l.order_id = o.id
where c.region is not null group by c.region"""


def plan_of(sql: str, *key: str) -> Plan:
    return plan(resolve_view(parse_view("v", "store", key or ("id",), sql), TABLES))


def words(found: Plan) -> dict[str, str]:
    return {step.alias: step.words for step in found.steps}


def test_a_view_of_one_table_needs_its_columns_and_no_more() -> None:
    found = plan_of(ONE)
    (table,) = found.tables
    assert (table.table, table.key) == ("public.orders", ("id",))
    assert set(table.columns) == {"id", "total", "note", "paid"}
    assert found.kept.endswith("a row that leaves WHERE is deleted")
    assert "WHERE" not in plan_of("select id from orders").kept


def test_the_steps_of_a_join_say_what_is_looked_up_by_what() -> None:
    found = plan_of(JOINED)
    assert {table.table: table.columns for table in found.tables} == {
        "public.orders": ("id", "customer_id", "total"),
        "public.customers": ("id", "name"),
    }
    assert words(found) == {
        "o": "it names the keys itself",
        "c": "looks up o",
    }
    assert found.rows == "of o, c by the key"
    assert 'FROM public.orders AS "o"\nJOIN changed_c AS "c"' in found.steps[1].sql
    assert 'FROM touched_keys AS "__keys"' in found.rows_sql


def document(sql: str, found: Plan, **more: Any) -> dict[str, Any]:
    generation = {
        "generation": 2, "phase": "live", "store": "search", "rows": 100_000, "dead_letters": 2,
        "parked_keys": 0, "lsn": "12/16B37480", "live_at": "2026-11-22T08:30:11+00:00",
        "retired_at": None, "sql": sql, "key": ["id"],
    }  # fmt: skip
    kept = {**generation, "generation": 1, "phase": "retired", "retired_at": generation["live_at"]}
    return {
        "view": "open_orders", "store": "search", "store_kind": "opensearch", "live": 2,
        "settings": {"settings": {"number_of_shards": 3}}, "sql": sql, "key": ["id"],
        "declared_otherwise": "", "stopped": None,
        "tables": [table._asdict() for table in found.tables],
        "plan": {
            "kept": found.kept, "changes": [step._asdict() for step in found.steps],
            "rows": found.rows, "rows_sql": found.rows_sql,
        },
        "below_lsn": "12/16B37488", "replay": None, "problems": [],
        "lag": {"behind_records": 12, "behind_bytes": 0, "behind_s": 0.21, "lost_records": 0},
        "generations": [kept, generation], **more,
    }  # fmt: skip


def text_of(found: dict[str, Any], with_plan: bool = False, terminal: bool = False) -> str:
    stream = StringIO()
    shown(found, Console(file=stream, width=80, force_terminal=terminal), with_plan)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def test_all_of_it_fits_80_columns() -> None:
    text = text_of(document(JOINED, plan_of(JOINED)))
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("open_orders: generation 2 is live, in search (opensearch)\n\nselect ")
    for line in (
        JOINED,
        "tables     public.orders (key id): id, customer_id, total\n",
        "           public.customers (key id): id, name\n",
        "a change   of public.orders o: it names the keys itself\n",
        "its rows   of o, c by the key\n",
        "settings   settings = {'number_of_shards': 3}\n",
        "holds      what was committed below 12/16B37488; 12 records, 0.2 s behind\n",
        "2           live     100,000, 2  12/16B37480  2026-11-22 08:30  -\n",
    ):
        assert line in text, text
    assert "changed_c" not in text


def test_the_fault_that_has_ended_it_is_said_first() -> None:
    stopped = {
        "at": "2026-11-22T08:30:11Z",
        "fault": "view open_orders: refused",
        "hint": "mend it",
    }
    text = " ".join(text_of(document(JOINED, plan_of(JOINED), stopped=stopped)).split())
    assert "stopped at 2026-11-22T08:30:11Z: view open_orders: refused. Mend it. key id" in text


def test_what_is_not_as_it_was_declared_is_said() -> None:
    found = document(ONE, plan_of(ONE), declared_otherwise="sql", below_lsn=None)
    found["generations"][1]["parked_keys"] = 3
    text = text_of(found | {"replay": {"from": "0/1", "left_records": 1_234}})
    assert "sql changed since: run `headwater view rebuild open_orders`" in text
    assert "3 keys, and not in it: headwater dead-letters list open_orders" in text
    assert "from 0/1: 1,234 records left" in text
    assert "nothing yet" in text


def test_servers_that_are_away_leave_the_rest() -> None:
    away = dict.fromkeys(("plan", "lag", "below_lsn", "replay"))
    found = document(ONE, plan_of(ONE), **away)
    found["tables"] = [{"table": "public.orders"}]
    text = text_of(found)
    assert "tables    public.orders\n" in text
    assert "holds" not in text


def test_the_queries_are_shown_on_request_and_coloured_on_a_terminal() -> None:
    text = text_of(document(JOINED, plan_of(JOINED)), with_plan=True)
    assert 'JOIN changed_c AS "c"' in text
    assert "rows of touched keys" in text
    assert "\x1b[" in text_of(document(ONE, plan_of(ONE)), terminal=True)
