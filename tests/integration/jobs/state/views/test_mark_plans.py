"""How PostgreSQL looks for the keys that a batch touches: by indexes of mirrors, whatever the
batches before were like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from jobs.state.batch.image_tables import image_tables, prepare_images
from jobs.state.views.dirty_keys import State, mark_sql
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting

pytestmark = pytest.mark.server
SHOP = """
create table customers (id int primary key, name text not null);
create table orders (id int primary key, customer_id int not null, total int not null);
insert into customers select i, repeat('c', 200) from generate_series(1, 2000) i;
insert into orders select i, 1 + i % 2000, i from generate_series(1, 10000) i;
"""
VIEW = "select o.id, o.total, c.name from orders o join customers c on c.id = o.customer_id"
STATES: tuple[State, ...] = ("before", "after")


@pytest.fixture
def setting(postgres: str) -> Iterator[EngineSetting]:
    with ExitStack() as stack:
        source, state = (stack.enter_context(fresh_database(postgres)) for _ in range(2))
        made = EngineSetting(source, state, SHOP)
        stack.callback(made.close)
        yield made


def test_large_values_are_not_copied_for_an_estimate(setting: EngineSetting) -> None:
    text = "select string_agg(md5(i::text || j), '') from generate_series(1, 4000) j"
    setting.mirrors.execute(f"update customers set name = ({text} where i > 0) from"
                            " generate_series(1, 3) i where id = i")  # fmt: skip
    setting.mirrors.execute("delete from customers where id > 3")
    setting.step()
    conn = setting.conn
    mirror = setting.mirrors.mirrors["public.customers"]
    prepare_images(conn, mirror.table, mirror.id)
    for name in image_tables(mirror.id):
        ((held,),) = conn.execute(f"select pg_table_size('{name}')".encode()).fetchall()
        assert held < 50_000


def read_whole(setting: EngineSetting) -> set[str]:
    """The mirrors that the session of batches would read from end to end."""
    conn, _, _ = setting.batches._session()
    images = {label: image_tables(one.id) for label, one in setting.mirrors.mirrors.items()}
    view = setting.views["joined"].view
    found = set()
    for state in STATES:
        query = (mark_sql(view, images, state) or "").replace("$1", "1")
        ((((plan,),),)) = conn.execute(f"explain (format json) {query}".encode()).fetchall()
        scans = [one for one in nodes(plan["Plan"]) if one["Node Type"] == "Seq Scan"]
        found |= {one["Relation Name"] for one in scans} & images.keys()
    return found


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def test_a_few_changes_are_looked_up_also_behind_a_large_batch(setting: EngineSetting) -> None:
    setting.add("joined", VIEW, ["id"])
    setting.conn.execute("analyze")
    for number, change in enumerate((
        "update customers set name = name || '.' where id in (7, 8, 9)",
        "update customers set name = name || '.'",
        "update customers set name = name || '.' where id in (17, 18)",
    )):  # fmt: skip
        setting.mirrors.execute(change)
        setting.step()
        setting.check()
        assert number == 1 or not read_whole(setting), change
