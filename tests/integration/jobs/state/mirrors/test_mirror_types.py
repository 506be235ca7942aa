"""The source's own types in the state database: made again, followed, or kept as text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.run.tables.mirrored_tables import planned
from jobs.state.mirrors.mirror_record import read_mirrors
from jobs.state.mirrors.type_changes import may_be_types, refresh_types
from tests.support.views.mirror_tables import MirrorSetting

LABEL = "public.t"
INTERNAL = "immutable strict language internal"


@pytest.fixture
def setting(database: str, store_database: str) -> Iterator[MirrorSetting]:
    made = MirrorSetting(database, store_database)
    yield made
    made.close()


def labels(setting: MirrorSetting) -> list[str]:
    query = 'select unnest(enum_range(null::types."public.mood"))::text'
    return [label for (label,) in setting.state.execute(query)]


def caught_up(setting: MirrorSetting) -> None:
    """As apply does: types are asked about when values do not fit."""
    changes = setting.changes()
    setting.follow(changes)
    tables = {label: mirror.table for label, mirror in setting.mirrors.items()}
    made = setting.apply(changes)
    faults = [fault for one in made for fault in one.faults]
    assert may_be_types(faults, tables)
    found = refresh_types(setting.state, setting.source, read_mirrors(setting.state).values())
    assert found.changed
    for label in found.stale:
        setting.fill(label)
    made = setting.apply(changes)
    assert not [fault for one in made for fault in one.faults]


def test_an_enum_follows_the_source_s_labels_in_their_order(setting: MirrorSetting) -> None:
    setting.execute(
        "create type mood as enum ('sad', 'ok', 'happy')",
        "create table t (id int primary key, m mood, list mood[])",
        "insert into t values (1, 'sad', '{ok}'), (2, 'happy', null)",
    )
    setting.stream()
    setting.fill(LABEL)
    setting.execute(
        "alter type mood add value 'it''s so-so' before 'ok'",
        "alter type mood add value 'best'",
        "alter type mood rename value 'happy' to 'glad'",
        "alter type mood rename value 'ok' to 'x'",
        "alter type mood rename value 'sad' to 'ok'",
        "alter type mood rename value 'x' to 'sad'",
        "insert into t values (3, 'it''s so-so', '{best,glad}'), (4, 'glad', '{}')",
    )
    caught_up(setting)
    assert labels(setting) == ["ok", "it's so-so", "sad", "glad", "best"]
    setting.assert_equal(LABEL)
    ordered = "select id from {} order by m desc, id".format
    assert (
        setting.state.execute(ordered('mirror."public.t"')).fetchall()
        == setting.source.execute(ordered("public.t")).fetchall()
    )


def test_a_renamed_label_is_renamed_alone(setting: MirrorSetting) -> None:
    setting.execute(
        "create type mood as enum ('sad', 'ok')",
        "create table t (id int primary key, m mood)",
        "insert into t values (1, 'sad'), (2, 'ok')",
    )
    setting.stream()
    setting.fill(LABEL)
    setting.execute(
        "alter type mood rename value 'sad' to 'blue'", "insert into t values (3, 'blue')"
    )
    caught_up(setting)
    assert labels(setting) == ["blue", "ok"]
    setting.assert_equal(LABEL)


def test_a_composite_with_another_field_is_filled_anew(setting: MirrorSetting) -> None:
    setting.execute(
        "create type pair as (a int, b text)",
        "create table t (id int primary key, p pair, list pair[])",
        "create table other (id int primary key)",
        "insert into t values (1, '(1,x)', array[row(2,'y')::pair])",
    )
    setting.stream()
    setting.fill(LABEL, "public.other")
    setting.execute(
        "alter type pair add attribute c date",
        "insert into t values (2, '(1,x,2020-01-01)', null)",
    )
    caught_up(setting)
    setting.assert_equal(LABEL)
    setting.execute("insert into t values (3, '(1,x,2020-01-01)', null)")
    setting.catch_up()
    setting.assert_equal(LABEL)


def test_types_in_several_schemas_that_are_made_of_each_other(setting: MirrorSetting) -> None:
    setting.execute(
        "create schema a", 'create schema "b.c"',
        "create type a.mood as enum ('x', 'y')", "create type \"b.c\".mood as enum ('y', 'z')",
        "create domain a.age as int check (value > 0)",
        'create type a.both as (m a.mood, n "b.c".mood, age a.age, list a.mood[])',
        "create type a.span as range (subtype = text)",
        'create table t (id int primary key, m a.mood, n "b.c".mood, both_ a.both, s a.span,'
        " many a.both[], ages a.age[])",
        "insert into t values (1, 'x', 'z', row('y', 'z', 5, '{x,y}'), '[a,b)',"
        " array[row('y', 'z', 5, '{x,y}')::a.both], '{3,NULL}')",
    )  # fmt: skip
    setting.stream()
    (filled,) = setting.fill(LABEL)
    assert not [column for column in filled.table.columns if column.is_text]
    setting.execute("insert into t select 2, m, n, both_, s, many, ages from t")
    setting.catch_up()
    setting.assert_equal(LABEL)
    held = setting.state.execute(
        b"select (m > 'x')::text, (both_).age::text, ages[1]::text, (s @> 'aa'::text)::text"
        b' from mirror."public.t" where id = 2'
    )
    assert held.fetchone() == ("false", "5", "3", "true")


def test_a_domain_whose_check_cannot_be_made_again(setting: MirrorSetting) -> None:
    setting.execute(
        "create function fine(int) returns bool immutable language sql as 'select $1 > 0'",
        "create domain checked as int check (fine(value))",
        "create table t (id int primary key, c checked)",
        "insert into t values (1, 5)",
    )
    setting.stream()
    setting.fill(LABEL)
    setting.execute("insert into t values (2, 6)")
    setting.catch_up()
    setting.assert_equal(LABEL)


def test_an_extension_s_types_are_themselves(setting: MirrorSetting) -> None:
    setting.execute(
        "create schema ext",
        "create extension vector schema ext",
        "create table t (id int primary key, v ext.vector(3), list ext.vector[])",
        "insert into t values (1, '[1,2.5,-3]', '{\"[1,2]\"}')",
    )
    setting.stream()
    (filled,) = setting.fill(LABEL)
    assert [column.sql for column in filled.table.columns][1:] == ["ext.vector(3)", "ext.vector[]"]
    setting.execute("insert into t values (2, '[0,1e-7,3]', null)", "update t set list = null")
    setting.catch_up()
    setting.assert_equal(LABEL)


def test_what_the_state_database_does_not_know_is_text(setting: MirrorSetting) -> None:
    setting.execute(
        "create type odd",
        f"create function odd_in(cstring) returns odd {INTERNAL} as 'textin'",
        f"create function odd_out(odd) returns cstring {INTERNAL} as 'textout'",
        "create type odd (input = odd_in, output = odd_out)",
        "create table t (id int primary key, o odd, list odd[], c regclass)",
        "insert into t values (1, 'x \"y', '{a,\"b c\",NULL}', 't')",
    )
    setting.stream()
    (filled,) = setting.fill(LABEL)
    found = {column.name: (column.sql, column.is_text) for column in filled.table.columns}
    assert found == {
        "id": ("integer", False), "o": ("text", True), "list": ("text[]", True), "c": ("text", True)
    }  # fmt: skip
    setting.execute("insert into t select 2, o, list, c from t")
    setting.catch_up()
    setting.assert_equal(LABEL)


def test_an_hstore_that_the_state_database_lacks_is_the_json_of_events(
    setting: MirrorSetting,
) -> None:
    """Of rows that were filled, that were streamed, and that are older than the column."""
    one = """'"a"=>"1", "b c"=>NULL'"""
    setting.execute(
        "create type hstore",  # no extension: the state database cannot have it
        f"create function hstore_in(cstring) returns hstore {INTERNAL} as 'textin'",
        f"create function hstore_out(hstore) returns cstring {INTERNAL} as 'textout'",
        "create type hstore (input = hstore_in, output = hstore_out)",
        "create table t (id int primary key, h hstore, list hstore[])",
        f"insert into t values (1, {one}, array[{one}, null]::hstore[])",
    )
    setting.stream()
    setting.fill(LABEL)
    setting.execute("insert into t select 2, h, list from t")
    setting.catch_up()
    setting.execute(
        f"alter table t add later hstore default {one}", "update t set id = 3 where id = 2"
    )
    setting.catch_up()
    held = setting.state.execute(
        b'select h, list[1], list[2], later from mirror."public.t" order by id'
    )
    wanted = '{"a":"1","b c":null}'
    assert held.fetchall() == [(wanted, wanted, None, wanted)] * 2


def test_money_without_hundredths_is_the_text_of_events(
    setting: MirrorSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a database with the lc_monetary of a yen, for which this system may have no locale."""
    for place in ("cdc.source.types", "jobs.state.mirrors.source_types"):
        monkeypatch.setattr(f"{place}.money_digits", lambda _: 0)
    setting.execute(
        "create domain price as money",
        "create table t (id int primary key, m money, list money[], p price)",
        "insert into t values (1, '-1234.56', '{0.05,NULL}', '-1234.56')",
    )
    setting.stream()
    (filled,) = setting.fill(LABEL)
    assert [one.is_text for one in filled.table.columns] == [False, True, True, True]
    assert "(lc_monetary)" in planned(filled.table).columns[1].fault
    setting.execute("insert into t select 2, m, list, p from t")
    setting.catch_up()
    setting.execute("alter table t add later money default '0.07'")
    setting.execute("update t set id = 3 where id = 2")
    setting.catch_up()
    held = setting.state.execute(
        b'select m, list[1], list[2], p, later from mirror."public.t" order by id'
    )
    assert held.fetchall() == [("-123456", "5", None, "-123456", "7")] * 2


def test_generated_columns_are_computed_or_told(setting: MirrorSetting) -> None:
    setting.execute(
        "create function f(int) returns int immutable language sql as 'select $1 + 1'",
        "create table t (id int primary key, a text,"
        " stored int generated always as (id * 2) stored,"
        " virtual text generated always as (upper(a)) virtual,"
        " own int generated always as (f(id)) stored)",
        "insert into t values (1, 'x')",
    )
    setting.stream()
    (filled,) = setting.fill(LABEL)
    assert [column.name for column in filled.table.columns] == ["id", "a", "stored", "virtual"]
    assert [name for name, _ in filled.table.left_out] == ["own"]
    setting.execute("insert into t values (2, 'y')", "update t set a = 'z', id = 3 where id = 1")
    setting.catch_up()
    setting.assert_equal(LABEL)
    assert ("3", "z", "6", "Z") in setting.mirrored(filled.table)


def test_generated_columns_that_are_published_come_with_events(setting: MirrorSetting) -> None:
    setting.execute(
        "create function f(int) returns int immutable language sql as 'select $1 + 1'",
        "create table t (id int primary key, own int generated always as (f(id)) stored)",
        "insert into t values (1)",
    )
    setting.stream("for all tables with (publish_generated_columns = stored)")
    (filled,) = setting.fill(LABEL)
    assert not [column for column in filled.table.columns if column.generated]
    setting.execute("insert into t values (2)")
    setting.catch_up()
    assert sorted(setting.mirrored(filled.table)) == [("1", "2"), ("2", "3")]
