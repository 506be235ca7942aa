"""DDL under views that are kept: the generation goes by the names that its SQL was written with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from cdc.errors import ViewError
from jobs.run.tables.mirrored_tables import planned
from jobs.run.views.view_keeper import ViewKeeper
from jobs.run.views.view_plan import planned_again, relation_of
from jobs.state.server.connection import Connection
from jobs.state.views.missed_changes import make_up_for
from jobs.state.views.view_generation import ViewGeneration, follow_key_types, read_key
from jobs.state.views.view_names import present, remember_names, view_names
from jobs.state.views.view_record import view_records
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting, Kept
from views.maintain.mirror import MirrorTable

SCHEMA = """
create table customers (id int primary key, name text);
create table orders (id int primary key, customer_id int, a int, b int, note varchar(20));
insert into customers select i, 'customer ' || i from generate_series(1, 5) i;
insert into orders select i, 1 + i % 6, i, -i, 'note ' || i from generate_series(1, 40) i;
"""
JOINED = """select o.id, o.a - o.b as less, o.note, c.name from orders o
            left join customers c on c.id = o.customer_id"""
GROUPED = """select c.id, c.name, count(o.id) as orders, sum(o.b) as b from customers c
             left join orders o on o.customer_id = c.id group by c.id"""
ALL = "select * from orders"
SAME_TEXTS = {
    "k_int": ("smallint", "bigint", "1099511627776"),
    "k_text": ("varchar(3)", "text", "longer"),
    "k_chars": ("varchar(3)", "varchar(9)", "longer"),
    "k_name": ("name", "text", "longer"),
    "k_numeric": ("numeric(6,2)", "numeric(8,2)", "123456.50"),
    "k_time": ("timestamp(0)", "timestamp(6)", "2026-01-01 00:00:00.5"),
}
OTHER_TEXTS = {
    "k_address": ("inet", "text", "10.0.0.1"),
    "k_clock": ("time", "text", "longer"),
}
"""Tables by the type that their key has, and the one that it gets, with a value of that alone."""
FIRST = {"k_time": "2026-01-01 00:00:00", "k_address": "10.0.0.2", "k_clock": "10:00"}


class Reopened:
    """Views as a process reopens them after DDL: a ``jobs.run.views.view_plan.Mirrors``, too."""

    def __init__(self, setting: EngineSetting) -> None:
        self.setting = setting

    def mirrored(self, _conn: Connection, labels: Sequence[str]) -> Mapping[str, MirrorTable]:
        return {label: planned(self.setting.mirrors.mirrors[label].table) for label in labels}

    def add(self, name: str, sql: str, key: str = "id") -> None:
        setting = self.setting
        kept = setting.add(name, sql, [key])
        tables = {label: present(setting.mirrors.mirrors[label].table) for label in setting.labels}
        remember_names(setting.conn, kept.view.id, view_names({}, tables).tables)

    def altered(self, *statements: str, **sql: str) -> None:
        """DDL and changes; the views go on, and the source gives them by ``sql`` from now on."""
        setting = self.setting
        setting.mirrors.execute(*statements)
        changes = setting.mirrors.changes()
        setting.mirrors.follow(changes)
        for name, kept in setting.views.items():
            setting.views[name] = self._again(kept, sql.get(name, kept.sql))
        setting.know()
        for kept in setting.views.values():
            kept.keeper.sure_from = make_up_for(setting.conn, kept.view)
        setting.apply(changes)
        setting.keep()
        setting.check()

    def _again(self, kept: Kept, sql: str) -> Kept:
        conn = self.setting.conn
        (record,) = view_records(conn, kept.view.name)
        plan, names = planned_again(self, conn, record)

        def seen(label: str) -> str:
            return names.reading(label, relation_of(label))

        follow_key_types(conn, record.id, plan, seen)
        key = read_key(conn, record.id, plan)
        view = ViewGeneration(record.id, record.name, 1, plan, key, seen, names)
        return Kept(view, kept.store, ViewKeeper(view, kept.store, 100, 100_000), sql)


@contextmanager
def reopened(postgres: str, schema: str) -> Iterator[Reopened]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        setting = EngineSetting(source, state, schema)
        yield Reopened(setting)
        setting.close()


@pytest.fixture
def shop(postgres: str) -> Iterator[Reopened]:
    with reopened(postgres, SCHEMA) as made:
        yield made


def test_a_column_is_the_same_under_every_name(shop: Reopened) -> None:
    shop.add("joined", JOINED)
    shop.add("grouped", GROUPED)
    shop.add("all", ALL)
    written = shop.setting.views["joined"].store.written
    joined = JOINED.replace("o.note", "o.remark")
    listed = "select id, customer_id, a, b, remark as note from orders"
    shop.altered("alter table orders rename note to remark", joined=joined, all=listed)
    assert shop.setting.views["joined"].store.written == written, "nothing is written for a name"
    shop.altered("update orders set remark = 'new' where id % 7 = 0")
    shop.altered(
        """begin; alter table orders rename a to tmp; alter table orders rename b to a;
           alter table orders rename tmp to b; commit""",
        "update orders set a = a - 5 where id % 5 = 0",
        joined=joined.replace("o.a - o.b", "o.b - o.a"),
        grouped=GROUPED.replace("o.b", "o.a"),
        all="select id, customer_id, b as a, a as b, remark as note from orders",
    )
    shop.altered("delete from orders where id % 9 = 0", "insert into orders values (90, 2, 3, 4)")


def test_a_new_column_of_an_old_name_is_another_one(shop: Reopened) -> None:
    shop.add("joined", JOINED)
    shop.add("grouped", GROUPED)
    shop.altered(
        "alter table customers rename name to called",
        "alter table customers add name text default 'other'",
        "update customers set called = 'new ' || id, name = 'x' where id = 2",
        joined=JOINED.replace("c.name", "c.called as name"),
        grouped=GROUPED.replace("c.name", "c.called as name"),
    )
    shop.altered("insert into customers values (6, 'late', 'x')")


def test_a_key_column_that_is_renamed(shop: Reopened) -> None:
    shop.add("joined", JOINED)
    shop.add("grouped", GROUPED)
    shop.altered(
        "alter table orders rename id to no",
        "alter table customers rename id to number",
        "update orders set no = no + 100 where no % 4 = 0",
        "delete from customers where number = 3",
        joined=JOINED.replace("o.id", "o.no as id").replace("c.id", "c.number"),
        grouped=GROUPED.replace("c.id,", "c.number as id,")
        .replace("c.id", "c.number")
        .replace("o.id", "o.no"),
    )
    shop.altered("update customers set name = 'last' where number = 1")


def test_a_type_that_becomes_wider_is_followed_also_by_keys(shop: Reopened) -> None:
    shop.add("joined", JOINED)
    shop.add("all", ALL)
    shop.altered(
        "alter table orders alter note type text",
        "update orders set note = repeat('long', 20) where id = 4",
    )
    shop.altered(
        "alter table orders alter id type bigint, alter b type bigint",
        "insert into orders values (1::bigint << 40, 1, 2, 1::bigint << 41, 'wide')",
        "update orders set note = 'later' where id > 1000",
    )


def test_a_key_of_a_wider_type_is_followed_where_its_texts_stay(postgres: str) -> None:
    """Else the store would have a row twice: by the text that it was, and by the one that it is."""
    schema = "".join(
        f"create table {name} (id {kind} primary key, n int);"
        f"insert into {name} values ('{FIRST.get(name, 1)}', 1);"
        for name, (kind, _, _) in {**SAME_TEXTS, **OTHER_TEXTS}.items()
    )
    with reopened(postgres, schema) as shop:
        for name, (_, wider, late) in {**SAME_TEXTS, **OTHER_TEXTS}.items():
            shop.add(name, f"select id, n from {name}")
            statements = (
                f"alter table {name} alter id type {wider}",
                f"update {name} set n = n + 1",
                f"insert into {name} values ('{late}', 9)",
            )
            if name in SAME_TEXTS:
                shop.altered(*statements)
                continue
            with pytest.raises(ViewError, match=r"its key column .* and is .* now") as told:
                shop.altered(*statements)
            assert told.value.hint == f"Run `headwater view rebuild {name}`."
            del shop.setting.views[name]


def test_a_column_that_is_gone_is_told_with_what_was_and_what_is(shop: Reopened) -> None:
    shop.add("joined", JOINED)
    with pytest.raises(ViewError) as told:
        shop.altered(
            "alter table orders drop note",
            "alter table orders add note text",
            "update orders set note = 'other' where id = 1",
        )
    assert "public.orders lost note varchar; got note text" in told.value.message
    assert "`headwater view rebuild joined`" in told.value.hint


def test_a_column_that_is_added_is_taken_along_with_the_rows_of_its_transaction(
    shop: Reopened,
) -> None:
    shop.add("all", ALL)
    shop.add("joined", JOINED)
    shop.altered(
        """begin; insert into orders values (51, 1, 1, 1, 'before');
           alter table orders add late text;
           insert into orders values (52, 1, 1, 1, 'behind', 'late');
           update orders set late = 'now' where id < 5; commit""",
    )
    assert shop.setting.views["all"].store.rows[("52",)] == "(52,1,1,1,behind,late)"
    shop.altered(
        "alter table orders rename late to later",
        "update orders set later = 'renamed' where id = 3",
        all=ALL.replace("*", "id, customer_id, a, b, note, later as late"),
    )
