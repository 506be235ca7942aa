"""Tables that are mirrored: with other keys, in partitions, published in part, with any names."""

from __future__ import annotations

import pytest

from cdc.errors import SourceError, StateError
from tests.support.views.mirror_tables import MirrorSetting

LABEL = "public.t"


def test_equal_keys_with_several_texts(setting: MirrorSetting) -> None:
    setting.execute(
        "create table num (n numeric, a text, primary key (n))",
        "insert into num values (1.0, 'a'), (2.50, 'b'), ('NaN', 'c'), ('infinity', 'd')",
    )
    setting.stream()
    setting.fill("public.num")
    setting.execute(
        "update num set n = 1.00, a = 'x' where n = 1", "delete from num where n = 'NaN'"
    )
    setting.catch_up()
    setting.assert_equal("public.num")
    setting.execute("update num set n = 1.000 where n = 1", "update num set n = 2.5 where n = 2.5")
    setting.execute("update num set a = 'y' where n = 1", "update num set a = 'z' where n > 100")
    for change in reversed(setting.changes()):  # partitions are read each at its own pace
        setting.apply([change])
    setting.assert_equal("public.num")


def test_a_key_with_a_time_zone_is_in_utc(setting: MirrorSetting) -> None:
    setting.execute(
        "create table opening (at timetz primary key, a text)",
        "insert into opening values ('12:00+05:30', 'a'), ('24:00+00', 'b'), ('01:00-08', 'c')",
    )
    setting.stream()
    setting.fill("public.opening")
    setting.execute(
        "update opening set a = 'x' where at = '12:00+05:30'",
        "delete from opening where at = '01:00-08'",
    )
    setting.catch_up()
    setting.assert_equal("public.opening")
    setting.execute("insert into opening values ('06:30+00', 'the same key')")
    with pytest.raises(SourceError, match="same key") as refused:
        setting.fill("public.opening")
    assert "a timetz is in UTC" in refused.value.hint


def test_a_table_without_a_primary_key(setting: MirrorSetting) -> None:
    setting.execute(
        'create table "full" (a int, b text, c text)',
        'alter table "full" replica identity full',
        "insert into \"full\" values (1, 'x', 'c')",
    )
    setting.stream()
    setting.fill("public.full")
    setting.execute(
        "insert into \"full\" values (2, 'y', 'd')",
        "update \"full\" set b = 'z' where a = 1",
        'insert into "full" values (3, null)',
        'delete from "full" where a = 3',
    )
    changes = setting.changes()
    made = setting.apply(changes)
    assert not made[0].faults, "the row without a key was deleted"
    setting.assert_equal("public.full")
    setting.execute('insert into "full" values (4, null)')
    (made_,) = setting.apply(setting.changes())
    assert "source.keys" in made_.faults[0].cause
    with pytest.raises((SourceError, StateError)):
        setting.fill("public.full")
    setting.execute('delete from "full" where a = 4', "insert into \"full\" values (2, 'y', 'e')")
    with pytest.raises(SourceError, match="same key"):
        setting.fill("public.full")


def test_partitions_come_through_the_root(setting: MirrorSetting) -> None:
    setting.execute(
        "create table t (id int, at date, a text, primary key (id, at)) partition by range (at)",
        "create table t_1 partition of t for values from ('2020-01-01') to ('2021-01-01')",
        "create table t_2 partition of t for values from ('2021-01-01') to ('2022-01-01')",
        "insert into t select i, '2020-12-30'::date + i, 'a' from generate_series(0, 9) i",
    )
    setting.stream("for all tables with (publish_via_partition_root = true)")
    (filled,) = setting.fill(LABEL)
    assert (filled.rows, filled.table.partitioned) == (10, True)
    setting.execute(
        "update t set at = '2021-05-05' where id = 0",
        "create table t_3 partition of t default",
        "insert into t values (50, '1999-01-01', 'b')",
        "delete from t where id = 3",
    )
    setting.catch_up()
    setting.assert_equal(LABEL)


def test_only_what_is_published_is_mirrored(setting: MirrorSetting) -> None:
    setting.execute(
        "create table t (id int primary key, a text, hidden text,"
        " twice int generated always as (id * 2) stored)",
        "insert into t select i, 'a' || i, 'h' from generate_series(1, 10) i",
    )
    setting.stream("for table t (id, a) where (id > 5)")
    (filled,) = setting.fill(LABEL)
    assert filled.rows == 5
    assert [column.name for column in filled.table.columns] == ["id", "a", "twice"]
    setting.execute("update t set a = 'x'", "update t set id = 60 where id = 1")
    setting.catch_up()
    rows = setting.mirrored(filled.table)
    assert sorted(rows)[-1] == ("9", "x", "18")
    assert {row[0] for row in rows} == {"6", "7", "8", "9", "10", "60"}


def test_names_that_need_quotes(setting: MirrorSetting) -> None:
    long = "l" * 50
    setting.execute(
        f'create table "{long}" ("a b%s" int primary key, "Ü""%" text, "select" jsonb)',
        f"insert into \"{long}\" values (1, '%s', '{{}}')",
        f'alter table "{long}" rename to "{long}.x%"',
    )
    setting.stream()
    label = f"public.{long}.x%"
    setting.config = setting.config.model_copy()
    filled = setting.fill_oid(setting.oid(f'public."{long}.x%"'))
    assert len(filled.table.relation_name.encode()) <= 63
    setting.execute(
        f"insert into \"{long}.x%\" values (2, '100%', null)",
        f'delete from "{long}.x%" where "a b%s" = 1',
    )
    setting.catch_up()
    setting.assert_equal(label)
