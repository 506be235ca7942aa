"""RENAME COLUMN under views that are kept meanwhile: views go on, and are equal to their SQL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands.deployment import Deployment, done
from tests.support.servers.lent_jvm import Lender

TABLES = (
    "create table customers (id int primary key, name text, gone int)",
    "alter table customers drop column gone",
    """create table orders (id bigint primary key, customer_id int, a int, b int, note text)""",
    "alter table orders alter column note set storage external",
    "insert into customers select i, 'customer ' || i from generate_series(1, 20) i",
    """insert into orders select i, 1 + i % 25, i, -i, repeat('note ' || i, 1 + (i % 2) * 1000)
       from generate_series(1, 200) i""",
)
SQL = {
    "cache": ("cache", "select id, a, b, note from orders where id > 1"),
    "lake": ("lake", "select * from orders"),
    "joined": (
        "cache",
        """select o.id, o.a + o.b as sum, o.b, o.note, c.name from orders o
           left join customers c on c.id = o.customer_id""",
    ),
    "grouped": (
        "lake",
        """select c.id, c.name, count(o.id) as orders, sum(o.b) as b from customers c
           left join orders o on o.customer_id = c.id group by c.id""",
    ),
}
RENAMES = {
    "a column that is left alone in an UPDATE": (
        "alter table orders rename note to remark",
        "update orders set a = a + 1 where id % 3 = 0",
        "update orders set remark = repeat('new ' || id, 1000) where id % 11 = 0",
    ),
    "names that are swapped, in one transaction": (
        """begin; alter table orders rename a to tmp; alter table orders rename b to a;
           alter table orders rename tmp to b;
           update orders set a = a * 2 where id % 5 = 0; commit""",
        "update orders set b = b + 1000 where id % 7 = 0",
        "delete from orders where id % 40 = 0",
    ),
    "a new column of an old name": (
        "alter table customers rename name to called; alter table customers add name text",
        "update customers set name = 'another ' || id, called = 'new ' || id where id % 4 = 0",
        "insert into customers (id, called, name) values (21, 'late', 'other')",
    ),
    "key columns": (
        "alter table orders rename id to no; alter table customers rename id to number",
        "update orders set b = 7 where no % 9 = 0",
        "delete from orders where no % 17 = 0",
        "update orders set no = no + 1000 where no % 50 = 1",
        "update customers set called = 'last' where number = 3",
        "delete from customers where number = 5",
    ),
}


def configured(name: str, home: Path, redis: str, views: dict[str, tuple[str, str]]) -> str:
    stores = f"""partitions = 1
[stores.cache]
kind = "redis"
url = "{redis}"
[stores.lake]
kind = "delta"
path = "{home}/lake"
[apply]
state = "{home}/state"
master = "local[2]"
spark = {{ "spark.driver.memory" = "1g" }}
"""
    return stores + "\n".join(
        f'[views.{name}_{view}]\nstore = "{store}"\nkey = ["id"]\nsql = """{sql}"""'
        for view, (store, sql) in views.items()
    )


@pytest.fixture
def shop(
    tmp_path: Path, source_name: str, database: str, kafka: str, redis_server: str, lender: Lender
) -> Deployment:
    extra = configured(source_name, tmp_path, redis_server, SQL)
    made = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    made.execute(*TABLES)
    return made


@pytest.mark.timeout(1800)
def test_views_go_on_without_a_restart_and_are_equal(shop: Deployment) -> None:
    names = {view: f"{shop.name}_{view}" for view in SQL}
    done(shop, "init")
    with shop.running("capture"), shop.running("apply") as apply:
        for statements in ((), *RENAMES.values()):
            shop.execute(*statements)
            done(shop, "wait", *names.values(), "--timeout", "120")
            said = done(shop, "verify", *names.values())
            assert said.count("equal at LSN") == len(names)
        assert apply.poll() is None
        assert "view_stopped" not in shop.log("apply")
        shown = json.loads(done(shop, "view", "show", names["joined"], "--json"))
        called = {table["table"]: table["called_now"] for table in shown["tables"]}
        assert called == {
            "public.orders": {"id": "no", "note": "remark", "a": "b", "b": "a"},
            "public.customers": {"id": "number", "name": "called"},
        }
        assert "id of public.orders is called no in the source now" in done(
            shop, "view", "show", names["joined"]
        )
        checked = shop.run("check", "--json")
        found = {one["check"]: one for one in json.loads(checked.stdout)["findings"]}
        of_views = [found[f"view {view}"] for view in names.values()]
        assert [one for one in of_views if one["level"] != "ok"] == []
        refused = shop.run("view", "rebuild", names["cache"])
        assert refused.returncode == 1
        assert "'id' is called 'no' now" in refused.stderr
        assert "'note' is called 'remark' now" in refused.stderr
        # Mirrors know of a new column with the table's next change.
        shop.execute("alter table orders add late int", "update orders set late = 1 where no = 2")
        done(shop, "wait", names["joined"], "--timeout", "120")
        now = "select no as id, a, remark, late from orders where no > 1"
        shop.extra = shop.extra.replace(SQL["cache"][1], now)
        assert "generation 2 is live" in done(shop, "view", "rebuild", names["cache"])
        assert "equal at LSN" in done(shop, "verify", names["cache"])
