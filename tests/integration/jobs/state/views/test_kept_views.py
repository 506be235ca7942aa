"""Views of any SELECT, kept by the engine's batches and keepers, through changes and kills."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from unittest.mock import patch

import pytest

from benchmarks.many import shop as shop_of_benchmark
from benchmarks.many.shop import FULL, Sizes
from benchmarks.many.views import BUILT, VIEWS
from jobs.run.views.view_keeper import ViewKeeper
from jobs.state.batch.key_marker import KeyMarker
from jobs.state.batch.staging import Record
from jobs.state.mirrors.indexes import drop_spare_indexes
from jobs.state.views.missed_changes import make_up_for
from jobs.state.views.repair import make_anew
from jobs.state.views.view_record import forget_view
from tests.sql_maintenance.cases import CASES, SHOP, Case
from tests.sql_maintenance.workload import transaction
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting, Killed, split

TABLES = ("customers", "products", "orders", "lines", "payments")
_KEPT_TOGETHER = (
    *("c2", "c7", "c9", "c14", "c16", "c23", "c26", "c27", "c28", "c32", "c33", "c38", "c39"),
    *("c41", "c45", "c48", "c49", "c52", "c53", "c55", "c56", "c60"),
)
SEEDS = (1, pytest.param(2, marks=pytest.mark.exhaustive))


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
    shop.mirrors.execute(f"truncate {', '.join(TABLES)}; {rows}")
    shop.apply(shop.mirrors.changes())
    return shop


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_kept_and_nothing_else_is_written(case: Case, setting: EngineSetting) -> None:
    kept = setting.add(case.name, case.sql, case.key)
    assert case.mode == "W" or kept.view.plan.mode == "keys", kept.view.plan.reason
    setting.check()
    for number, batch in enumerate(case.batches):
        before, written = setting.expected(case.name), kept.store.written
        setting.mirrors.execute(batch.changes)
        setting.step()
        setting.check()
        after = setting.expected(case.name)
        # A row that changes is one write, as is one that goes or comes.
        gone, come = sum((before - after).values()), sum((after - before).values())
        wrote = kept.store.written - written
        assert max(gone, come) <= wrote <= gone + come, f"batch {number + 1}"


def test_an_index_is_dropped_with_the_last_view_that_needs_it(setting: EngineSetting) -> None:
    joined = "select o.id, c.name from orders o left join customers c on c.id = o.customer_id"
    setting.add("one", joined, ["id"])
    setting.add("other", f"{joined} and c.name > ''", ["id"])

    def indexes() -> set[str]:
        query = b"select indexname from pg_indexes where schemaname = 'mirror'"
        return {name for (name,) in setting.conn.execute(query) if name.startswith("ix_")}

    drop_spare_indexes(setting.conn)
    assert (needed := indexes())
    forget_view(setting.conn, setting.views.pop("one").view.id)
    assert drop_spare_indexes(setting.conn) == []
    assert indexes() == needed
    forget_view(setting.conn, setting.views.pop("other").view.id)
    assert set(drop_spare_indexes(setting.conn)) == needed
    assert indexes() == set()


def test_a_key_may_be_called_as_columns_of_our_own(setting: EngineSetting) -> None:
    setting.add(
        "keys",
        "select id as seq, customer_id as first_seq, status as digest, id + 1 as held, total as m "
        "from orders where customer_id + length(status) > 0",
        ["seq", "first_seq", "digest", "held"],
    )
    grouped = "select customer_id as digest, count(*) as n, sum(id) as k0 from orders where "
    setting.add("groups", f"{grouped}customer_id > 0 group by customer_id", ["digest"])
    setting.add("whole", "select 1 as seq, 2 as held, avg(price) as digest from products",
                ["seq", "held"])  # fmt: skip
    setting.mirrors.execute("update orders set status = 'new' where id % 2 = 0")
    for change in ("update products set price = price + 1", "delete from orders where id = 11"):
        setting.mirrors.execute(change)
        setting.step()
        setting.check()
    for kept in setting.views.values():
        make_up_for(setting.conn, kept.view)
        make_anew(setting.conn, kept.view)
    setting.keep()
    setting.check()


@pytest.mark.parametrize("seed", SEEDS)
def test_views_are_what_the_source_says_after_kills_between_any_two_steps(
    seed: int, setting: EngineSetting
) -> None:
    generator = random.Random(seed)
    for case in CASES:
        if case.name in _KEPT_TOGETHER:
            setting.add(case.name, case.sql, case.key)
    for _ in range(8):
        setting.mirrors.execute(*(transaction(generator) for _ in range(generator.randint(1, 6))))
        for records in split(setting.mirrors.changes(), generator):
            _apply_with_kills(setting, records, generator)
            _keep_with_kills(setting, generator)
        setting.keep()
        setting.check()


def _apply_with_kills(
    setting: EngineSetting, records: Sequence[Record], generator: random.Random
) -> None:
    """A batch: killed before its commit, killed after it and given again, or neither."""
    batch = setting.table(records)
    fate = generator.choice(("before", "after", "none", "none"))
    if fate == "before":
        with (
            patch.object(KeyMarker, "after", side_effect=Killed()),
            pytest.raises(Killed),
        ):
            setting.batches.apply(*batch)
        setting.begin_again()
    assert setting.batches.apply(*batch) is not None
    if fate == "after":
        setting.begin_again()
        assert setting.batches.apply(*batch) is None


def _keep_with_kills(setting: EngineSetting, generator: random.Random) -> None:
    """Some views have turns, of which some end in the middle of a write or behind it."""
    for name in generator.sample(sorted(setting.views), 6):
        kept = setting.views[name]
        kept.store.dies = generator.choice((-1, 1, 2, 5))
        with suppress(Killed):
            kept.keeper.turn(setting.conn)
        kept.keeper = ViewKeeper(kept.view, kept.store, 100, 100_000)
        kept.store.dies = -1


def test_what_is_written_again_is_under_a_newer_position(setting: EngineSetting) -> None:
    kept = setting.add("v", "select id, name from customers", ("id",))
    first = Counter(kept.store.positions.values())
    assert len(first) == 1
    setting.mirrors.execute("update customers set name = 'Other' where id = 1")
    setting.step()
    assert len(set(kept.store.positions.values())) == 2
    assert max(kept.store.positions.values()) == kept.store.positions[("1",)]


def test_a_change_of_columns_that_a_view_does_not_read_touches_no_key(
    setting: EngineSetting,
) -> None:
    lists = (
        "select o.id, o.extra, array_agg(p.name order by p.name) as names from orders o "
        "left join lines l on l.order_id = o.id left join products p on p.sku = l.sku "
        "group by o.id"
    )
    kept = setting.add("lists", lists, ("id",))
    for change, is_read in (
        ("update products set price = price + 1, category = null", False),
        ("update orders set status = 'done' where id < 12", False),
        ("update orders set extra = '{\"w\": 1.00}' where id = 10", True),  # equal, not the same
        ("update products set price = 0, name = name || '!' where sku = 'B'", True),
        ("delete from products where sku = 'A'", True),
    ):
        setting.mirrors.execute(change)
        applied = setting.apply(setting.mirrors.changes())
        assert applied is not None
        assert (kept.view.id in applied.views) == is_read, change
        setting.keep()
        setting.check()


def test_columns_of_two_rows_of_one_table_are_not_asked_of_one_of_them(postgres: str) -> None:
    """A table under two aliases that are bound to the same key, joined by both with a third."""
    table = "create table a (id int primary key, x int, y int)"
    pairs = (
        "select l.x as p, r.x as q, b.id as bid from a l "
        "join a b on b.x = l.y join a r on r.id = b.y"
    )
    views = {
        "counted": (
            f"select o.id, count(*) as n from a o join ({pairs}) t "
            "on t.p = o.id and t.q = o.id group by o.id",
            "id",
        ),
        "grouped": (
            f"select o.id, t.n from a o left join (select p, q, count(*) as n from ({pairs}) s "
            "group by p, q) t on t.p = o.id and t.q = o.id",
            "id",
        ),
        "either": (
            "select coalesce(l.x, r.x) as k, count(b.id) as n from a l full join a r on l.x = r.x "
            "join a b on b.x = l.y and b.y = r.id where coalesce(l.x, r.x) is not null group by 1",
            "k",
        ),
    }
    generator = random.Random(3)
    with (
        fresh_database(postgres) as source,
        fresh_database(postgres) as state,
        closing(EngineSetting(source, state, table)) as setting,
    ):
        for name, (sql, key) in views.items():
            setting.add(name, sql, [key])
        for _ in range(12):
            numbers = [[generator.randint(1, 6) for _ in range(3)] for _ in range(5)]
            rows = ", ".join(f"({i}, {x}, {y})" for i, x, y in numbers)
            setting.mirrors.execute(
                f"insert into a select distinct on (i) i, x, y from (values {rows}) v (i, x, y) "
                "on conflict (id) do update set x = excluded.x, y = excluded.y"
            )
            setting.step()
            setting.check()


def test_columns_that_a_key_in_group_by_settles_are_selected_unnamed(postgres: str) -> None:
    sql = """select c.id, c.name, c.settings, count(o.id) as n,
        json_agg(json_build_object('id', o.id, 'vip', c.vip) order by o.status) as orders
        from customers c left join orders o on o.customer_id = c.id group by c.id"""
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        found = EngineSetting(source, state, f"{SHOP}; alter table customers add settings json")
        kept = found.add("v", sql, ("id",))
        found.mirrors.execute(
            "update customers set name = 'Other', settings = '{\"a\": 1.0}' where id = 1",
            "update orders set status = 'done'",  # and so in any order, were that all
        )
        found.step()
        found.close()
    text = kept.store.rows["1",]
    assert 'Other,"{""a"": 1.0}",2' in text
    assert text.index('""id"" : 10') < text.index('""id"" : 11')
    assert len(kept.store.rows) == 4


def test_the_views_of_the_benchmark_are_incremental(postgres: str) -> None:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        found = EngineSetting(source, state, shop_of_benchmark.TABLES)
        statements = [sql for _, sql in shop_of_benchmark.row_sql(Sizes.scaled(FULL, 0.02))]
        found.mirrors.execute(*statements)
        found.step()
        for view in (*VIEWS, *BUILT):
            if not view.history:
                kept = found.add(view.name, view.sql, view.key)
                assert kept.view.plan.mode == "keys"
                assert not kept.view.plan.whole_tables
                found.check([view.name])
        found.close()
