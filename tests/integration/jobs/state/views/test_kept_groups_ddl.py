"""DDL under groups that are kept by the change: their table holds what it held, or is filled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobs.run.builds.builder import Declared, Generation, opened
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.run.views.view_keeper import ViewKeeper
from jobs.run.views.view_plan import planned_again, relation_of
from jobs.state.groups.tables import fill_groups
from jobs.state.views.missed_changes import make_up_for
from jobs.state.views.view_record import view_records
from tests.integration.jobs.state.views.test_kept_ddl import GROUPED, SCHEMA, Reopened, reopened
from tests.support.views.engine_setting import Kept

ALL_OF_CUSTOMERS = """select c.*, count(o.id) as orders from customers c
                      left join orders o on o.customer_id = c.id group by c.id"""
TYPED = """
create table customers (id int primary key, since timestamp(0), rate numeric(10,2));
create table orders (id int primary key, customer_id int);
insert into customers select i, timestamp '2026-01-01' + i * interval '1 s', 1.5
from generate_series(1, 3) i;
insert into orders select i, 1 + i % 3 from generate_series(1, 9) i;
"""


class Registry:
    """``GenerationRegistry`` over what a test opens."""

    def __init__(self, shop: Reopened) -> None:
        self.shop, self.conn = shop, shop.setting.conn
        config = SimpleNamespace(
            store=lambda _: SimpleNamespace(kind="postgres"),
            alerts=SimpleNamespace(is_of=lambda _: False),
            apply=SimpleNamespace(dlq_limit=100),
        )
        self.config = cast(Any, config)
        self.declared = cast(Any, SimpleNamespace(change_stream=False))
        self.registry = object.__new__(GenerationRegistry)
        self.registry.as_they_are = cast(Any, shop)
        self.registry._parts = cast(Any, SimpleNamespace(config=self.config))

    def opened(self, name: str) -> Generation:
        (record,) = view_records(self.conn, name)
        plan, names = planned_again(cast(Any, self.shop), self.conn, record)
        declared = Declared(name, self.declared, self.config)
        return opened(self.conn, record, declared, plan, relation_of, names)

    def followed(self, *statements: str) -> list[Any]:
        """Mirrors have followed the DDL among them; their changes."""
        setting = self.shop.setting
        setting.mirrors.execute(*statements)
        changes = setting.mirrors.changes()
        setting.mirrors.follow(changes)
        return list(changes)

    def reopened(self, changes: list[Any]) -> dict[str, Generation]:
        """Views that batches passed over are opened again, and go on."""
        setting, found = self.shop.setting, dict[str, Generation]()
        for name, kept in setting.views.items():
            one = found[name] = self.opened(name)
            assert fill_groups(self.conn, one.kept, again=True), "it is kept by the change"
            keeper = ViewKeeper(one.kept, kept.store, 100, 100_000)
            setting.views[name] = Kept(one.kept, kept.store, keeper, kept.sql)
        setting.know()
        for kept in setting.views.values():
            kept.keeper.sure_from = make_up_for(self.conn, kept.view)
        setting.apply(changes)
        setting.keep()
        setting.check()
        return found


def test_a_column_that_no_group_reads_leaves_its_sums(postgres: str) -> None:
    """Also behind a rename, from which on a mirror's columns are listed."""
    with reopened(postgres, SCHEMA) as shop:
        shop.add("grouped", GROUPED)
        registry = Registry(shop)
        renamed = registry.followed("alter table orders rename note to remark")
        one = registry.reopened(renamed)["grouped"]
        changes = registry.followed(
            "alter table orders add extra int",
            "insert into orders values (91, 2, 1, 1, 'x', 5)",
            "delete from orders where id = 2",
        )
        assert registry.registry._with_more(registry.conn, one) is one
        shop.setting.know()
        shop.setting.apply(changes)
        shop.setting.keep()
        shop.setting.check()


def test_groups_that_show_a_new_column_are_opened_and_filled_again(postgres: str) -> None:
    with reopened(postgres, SCHEMA) as shop:
        shop.add("all", ALL_OF_CUSTOMERS)
        registry = Registry(shop)
        one = registry.reopened([])["all"]
        changes = registry.followed(
            "alter table customers add extra int", "insert into customers values (9, 'late', 7)"
        )
        assert registry.registry._with_more(registry.conn, one) is None
        registry.reopened(changes)


@pytest.mark.parametrize(
    ("sql", "key", "ddl", "change"),
    [
        (
            "select c.id, c.since, count(o.id) as n from customers c left join orders o"
            " on o.customer_id = c.id group by c.id, c.since",
            "id",
            "alter table customers alter since type timestamp(6)",
            "insert into customers values (9, '2026-01-01 00:00:07.25')",
        ),
        (
            "select since, count(*) as n from customers where since is not null group by since",
            "since",
            "alter table customers alter since type timestamp(6)",
            "insert into customers values (9, '2026-01-01 00:00:07.25')",
        ),
    ],
    ids=["beside", "key"],
)
def test_values_of_a_wider_type_are_not_rounded(
    postgres: str, sql: str, key: str, ddl: str, change: str
) -> None:
    with reopened(postgres, TYPED) as shop:
        shop.add("grouped", sql, key)
        Registry(shop).reopened([])
        registry = Registry(shop)
        registry.reopened(registry.followed(ddl, change))
