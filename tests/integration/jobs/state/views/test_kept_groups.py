"""Groups that are kept by the change: kills, builds under batches, values that no batch can add."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from unittest.mock import patch

import pytest
from psycopg.errors import LockNotAvailable

from headwater.cli.view.groups import rows_made
from jobs.run.views.view_keeper import ViewKeeper
from jobs.state.batch.key_marker import KeyMarker
from jobs.state.groups.changes import GroupChanges
from jobs.state.groups.sums import GroupSums
from jobs.state.groups.tables import drop_group_table, fill_groups, is_filled, with_groups
from jobs.state.server.connection import connect
from jobs.state.views.view_record import view_records
from tests.sql_maintenance.cases import SHOP
from tests.sql_maintenance.workload import transaction
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting, Kept, Killed, split

VIEWS = {
    "states": (
        "select status, count(*) as n, sum(total) as total, avg(total) as mean, "
        "bool_or(total > 25) as large, count(total) filter (where customer_id = 1) as of_one "
        "from orders group by status",
        ("status",),
    ),
    "customers_sales": (
        "select c.id, c.name, count(o.id) as orders, "
        "coalesce(sum(l.quantity * p.price), 0) as paid from customers c "
        "left join orders o on o.customer_id = c.id "
        "left join (lines l join products p on p.sku = l.sku) on l.order_id = o.id "
        "group by c.id, c.name having count(*) > 0",
        ("id",),
    ),
    "everything": (
        "select 'all' as k, count(*) as n, sum(amount) as amount, max(id) as newest, "
        "min(id) filter (where method = 'cash') as first_cash from payments",
        ("k",),
    ),
    "cities": (
        "select coalesce(c.city, '-') as city, sum(p.amount) as paid, avg(p.amount) as mean "
        "from payments p join orders o on o.id = p.order_id join customers c on "
        "c.id = o.customer_id group by 1 having sum(p.amount) > 0",
        ("city",),
    ),
}


@pytest.fixture(scope="module")
def shop(postgres: str) -> Iterator[EngineSetting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        found = EngineSetting(source, state, SHOP)
        yield found
        found.close()


@pytest.fixture
def setting(shop: EngineSetting) -> EngineSetting:
    """The shop as it is declared, and no views."""
    shop.forget_views()
    rows = SHOP[SHOP.index("insert into") :]
    tables = "customers, products, orders, lines, payments"
    shop.mirrors.execute(f"truncate {tables}; {rows}")
    shop.apply(shop.mirrors.changes())
    return shop


def _add_all(setting: EngineSetting) -> None:
    for name, (sql, key) in VIEWS.items():
        assert setting.add(name, sql, key).view.groups is not None


def _sums(setting: EngineSetting, view: Kept) -> GroupSums:
    assert view.view.groups is not None
    assert is_filled(setting.conn, view.view.groups, view.view.relation)
    return view.view.groups


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (1, 2))]
)
def test_a_batch_counts_once_whatever_is_killed(seed: int, setting: EngineSetting) -> None:
    generator = random.Random(seed)
    _add_all(setting)
    for _ in range(8):
        setting.mirrors.execute(*(transaction(generator) for _ in range(generator.randint(1, 6))))
        for records in split(setting.mirrors.changes(), generator):
            batch = setting.table(records)
            if generator.random() < 0.4:
                step = generator.choice((KeyMarker, GroupChanges))
                with (
                    patch.object(step, "after", side_effect=Killed()),
                    pytest.raises(Killed),
                ):
                    setting.batches.apply(*batch)
                if generator.random() < 0.5:  # else the session goes on
                    setting.begin_again()
            assert setting.batches.apply(*batch) is not None
            if generator.random() < 0.3:
                setting.begin_again()
                assert setting.batches.apply(*batch) is None
        for kept in setting.views.values():
            kept.store.dies = generator.choice((-1, 1, 2))
            with suppress(Killed):
                kept.keeper.turn(setting.conn)
            kept.keeper = ViewKeeper(kept.view, kept.store, 100, 100_000)
            kept.store.dies = -1
        setting.keep()
        setting.check()
    for kept in setting.views.values():
        _sums(setting, kept)


def test_groups_are_filled_while_batches_add_to_them(setting: EngineSetting) -> None:
    _add_all(setting)
    for kept in setting.views.values():
        setting.conn.execute(f"drop table {_sums(setting, kept).table}".encode())
        kept.view = with_groups(setting.conn, kept.view)
        kept.keeper = ViewKeeper(kept.view, kept.store, 100, 100_000)
    setting.know()
    setting.mirrors.execute("insert into payments values (110, 12, 7.5, now(), 'cash')")
    setting.apply(setting.mirrors.changes())
    with closing(connect(setting.mirrors.state.info.dsn, autocommit=True)) as other:
        for kept in setting.views.values():
            with other.transaction():
                fill_groups(other, kept.view)
                setting.mirrors.execute(
                    "update payments set amount = amount + 1", "delete from lines where no = 2",
                    "update orders set status = 'done', customer_id = 2 where id = 10",
                )  # fmt: skip
                setting.apply(setting.mirrors.changes())
            _sums(setting, kept)
    setting.keep()
    setting.check()


def test_what_batches_have_passed_over_is_made_up_for(setting: EngineSetting) -> None:
    _add_all(setting)
    known = dict(setting.views)
    setting.views = {}
    setting.know()
    setting.mirrors.execute("delete from payments where id = 101", "update products set price = 9")
    setting.apply(setting.mirrors.changes())
    setting.views = known
    setting.know()
    setting.mirrors.execute("update lines set quantity = quantity + 1; delete from customers")
    setting.apply(setting.mirrors.changes())
    for kept in known.values():
        assert fill_groups(setting.conn, kept.view, again=True)
    setting.mirrors.execute("update payments set amount = 3; update orders set total = 4")
    setting.step()
    setting.check(("states", "everything"))
    for kept in known.values():  # all of its keys, from the groups
        setting.conn.execute(
            f"insert into {kept.view.dirty} select {kept.view.key_names}, 0, 0 "
            f"from {kept.view.shown} on conflict do nothing".encode()
        )
    setting.keep()
    setting.check()


def test_rows_are_made_of_their_rows_where_sums_are_not_believed(setting: EngineSetting) -> None:
    _add_all(setting)
    for kept in setting.views.values():
        setting.conn.execute(f"update {_sums(setting, kept).table} set n = n + 1".encode())
        drop_group_table(setting.conn, kept.view.id)
    setting.mirrors.execute("update payments set amount = 2; update orders set total = 7")
    setting.step()
    setting.check()
    assert all(kept.keeper.view.groups is None for kept in setting.views.values())
    for kept in setting.views.values():
        kept.keeper.clock = lambda: time.monotonic() + 60
    setting.mirrors.execute("update payments set amount = 5; update orders set total = total + 1")
    setting.step()  # batches have not seen them again
    setting.mirrors.execute("update lines set quantity = 3; delete from payments where id = 101")
    setting.step()
    setting.check()
    for kept in setting.views.values():
        _sums(setting, kept)
        assert kept.keeper.view.groups is not None


def test_lost_groups_are_made_anew_while_no_batch_runs(setting: EngineSetting) -> None:
    _add_all(setting)
    for kept in setting.views.values():
        drop_group_table(setting.conn, kept.view.id)
    with closing(connect(setting.mirrors.state.info.dsn, autocommit=True)) as other:
        for kept in setting.views.values():
            setting.mirrors.execute("update payments set amount = amount + 1")
            batch = setting.table(setting.mirrors.changes())
            with other.transaction():
                assert fill_groups(other, kept.view, again=True)
                with closing(setting.mirrors.reconnected()) as batches:
                    batches.execute(b"set lock_timeout = '50ms'")
                    with pytest.raises(LockNotAvailable):
                        batches.execute(b"select from headwater.progress for update")
            setting.batches.apply(*batch)
            setting.keep()
            setting.check()
            _sums(setting, kept)


def test_it_is_shown_how_groups_are_kept(setting: EngineSetting) -> None:
    _add_all(setting)
    by_rows = "select status, count(distinct total) as n from orders group by status"
    setting.add("of_rows", by_rows, ("status",))
    for name, said in (
        ("states", "kept by the change in groups.v"),
        ("of_rows", "from all rows of the group: count of values that are told apart"),
    ):
        view = setting.views[name].view
        (record,) = view_records(setting.conn, name)
        shown = rows_made(setting.conn, record, view.plan, view.relation)
        assert said in shown["groups"]
        keys = f"(select {view.key_names} from {view.shown})"
        made = shown["rows_sql"].replace("touched_keys", keys)
        found = setting.conn.execute(f"select (m.*)::text from ({made}) m".encode()).fetchall()
        assert Counter(text for (text,) in found) == setting.expected(name)


def test_a_truncated_table_leaves_groups_of_nothing(setting: EngineSetting) -> None:
    _add_all(setting)
    setting.mirrors.execute("truncate payments")
    setting.step()
    setting.check()
    setting.mirrors.execute("truncate orders, lines, products, customers")
    setting.step()
    setting.check()
    for kept in setting.views.values():
        query = f"select count(*) from {_sums(setting, kept).table}"
        assert setting.conn.execute(query.encode()).fetchone() == (0,)
    setting.mirrors.execute("insert into payments values (1, 1, 1.5, now(), 'cash')")
    setting.step()
    setting.check()


def test_a_value_that_no_batch_can_add_leaves_groups_made_of_their_rows(
    setting: EngineSetting,
) -> None:
    sql = "select sku, sum(60 / quantity) as shares from lines group by sku"
    kept = setting.add("shares", sql, ("sku",))
    table = _sums(setting, kept).table
    setting.mirrors.execute("update lines set quantity = 0 where order_id = 11")
    setting.step()
    found = setting.conn.execute(b"select to_regclass(%s)", (table,)).fetchone()
    assert found == (None,)
    parked = setting.conn.execute(b"select key from headwater.parked").fetchall()
    assert len(parked) == 1
    now = time.monotonic()
    for later in (11, 30, 60):  # they cannot be filled yet, and are asked for less and less often
        kept.keeper.clock = partial(float, now + later)
        setting.mirrors.execute("update lines set quantity = quantity + 1 where order_id <> 11")
        setting.step()
        assert kept.keeper.view.groups is None
    setting.mirrors.execute("update lines set quantity = 4 where order_id = 11")
    setting.step()
    setting.check()
    kept.keeper.clock = partial(float, now + 180)
    setting.mirrors.execute("update lines set quantity = 5 where order_id = 11")
    setting.step()
    setting.check()
    _sums(setting, kept)
    assert kept.keeper.view.groups is not None


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select status, count(distinct total) as n from orders group by status", "told apart"),
        (
            "select status, string_agg(note, ',' order by id) as notes from orders group by status",
            "all rows",
        ),
        ("select status, max(total + 1) as n from orders group by status", "no index"),
    ],
)
def test_what_has_to_see_all_rows_is_made_of_them(
    sql: str, why: str, setting: EngineSetting
) -> None:
    kept = setting.add("of_rows", sql, ("status",))
    assert kept.view.groups is None
    assert why in kept.view.plan.groups_reason
