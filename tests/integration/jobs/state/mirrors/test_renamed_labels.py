"""Labels of enums that the source has renamed, while events with their old names are under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from cdc.errors import RetryableError
from jobs.state.batch.staging import Record
from jobs.state.mirrors.enum_labels import noted_enums
from jobs.state.mirrors.mirror_record import drop_mirror, read_mirrors
from jobs.state.mirrors.type_changes import (
    RefreshedTypes,
    any_renamed,
    refresh_types,
    unknown_labels,
)
from tests.support.views.mirror_tables import MirrorSetting

LABEL = "public.t"
SCHEMA = (
    "create type s as enum ('a', 'b', '{v}%')",
    "create domain d as s",
    "create table t (id int primary key, st s not null, list s[], d d, ds d[])",
    "insert into t values (1, 'a', '{a,b}', 'b', '{a}'), (2, 'b', null, null, '{}')",
)


@pytest.fixture
def setting(database: str, store_database: str) -> Iterator[MirrorSetting]:
    made = MirrorSetting(database, store_database)
    yield made
    made.close()


def filled(setting: MirrorSetting, *statements: str) -> None:
    setting.execute(*(statements or SCHEMA))
    setting.stream()
    setting.fill(LABEL)


def refreshed(setting: MirrorSetting) -> RefreshedTypes:
    """As apply does when it looks for renamed labels."""
    assert any_renamed(noted_enums(setting.state), setting.source)
    found = refresh_types(setting.state, setting.source, read_mirrors(setting.state).values())
    assert not any_renamed(noted_enums(setting.state), setting.source)
    for label in found.stale:
        setting.fill(label)
    for label in read_mirrors(setting.state):
        setting.take(label)
    return found


def applied(setting: MirrorSetting, changes: Sequence[Record]) -> None:
    setting.follow(changes)
    made = setting.apply(changes)
    assert [fault for one in made for fault in one.faults] == []
    setting.assert_equal(LABEL)


def rename(was: str, now: str) -> str:
    return f"alter type s rename value '{was}' to '{now}'"


def test_events_with_the_old_name_and_with_the_new_one(setting: MirrorSetting) -> None:
    filled(setting)
    setting.execute(
        """insert into t values (11, 'a', '{{a,b},{b,NULL}}', 'a', '[2:3]={a,"{v}%"}')""",
        "update t set st = 'a' where id = 2",
        rename("a", "A"),
        "insert into t values (21, 'A', '{A,b}', 'A', '{A}')",
        rename("{v}%", "100%"),
        rename("A", "it''s {v}"),
        "update t set d = 'it''s {v}' where id = 21",
    )
    changes = setting.changes()
    found = refreshed(setting)
    assert found.stale == {}
    assert found.relabelled == {LABEL}
    applied(setting, [one for one in changes if '"A"' not in str(one.image)])


def test_rows_from_before_have_the_new_name_without_any_event(setting: MirrorSetting) -> None:
    filled(setting)
    setting.execute(rename("a", "A"))
    refreshed(setting)
    setting.assert_equal(LABEL)
    setting.execute("insert into t (id, st) values (3, 'A')")
    setting.catch_up()
    setting.assert_equal(LABEL)


def test_an_enum_that_no_mirror_has_any_more(setting: MirrorSetting) -> None:
    """The next mirror that has it waits for whoever renames its labels."""
    filled(setting)
    drop_mirror(setting.state, read_mirrors(setting.state)[LABEL])
    del setting.mirrors[LABEL]
    setting.execute(rename("a", "A"))
    with pytest.raises(RetryableError, match=r"labels of the enum public\.s were renamed"):
        setting.fill(LABEL)
    refreshed(setting)
    setting.fill(LABEL)
    setting.assert_equal(LABEL)


def test_a_label_that_is_renamed_back(setting: MirrorSetting) -> None:
    filled(setting)
    setting.execute("insert into t (id, st) values (3, 'a')", rename("a", "A"))
    refreshed(setting)
    setting.execute("insert into t (id, st) values (4, 'A')", rename("A", "a"))
    refreshed(setting)
    setting.execute("insert into t (id, st) values (5, 'a')")
    applied(setting, setting.changes())


def test_a_name_that_only_an_event_has(setting: MirrorSetting) -> None:
    """Nobody can say whose it was; a fill has its row."""
    filled(setting)
    setting.execute(rename("a", "x"), "insert into t (id, st, list) values (3, 'b', '{x}')")
    setting.execute(rename("x", "A"), "insert into t (id, st) values (4, 'A')")
    refreshed(setting)
    changes = setting.changes()
    faults = [fault for one in setting.apply(changes) for fault in one.faults]
    assert len(faults) == 1
    tables = {label: mirror.table for label, mirror in setting.mirrors.items()}
    assert unknown_labels(setting.state, faults, tables) == {LABEL}
    known = faults[0]._replace(record=changes[-1])
    assert unknown_labels(setting.state, [known], tables) == set()


@pytest.mark.parametrize(
    "statements",
    [
        (rename("a", "x"), rename("b", "a"), rename("x", "b")),
        (rename("a", "x"), "alter type s add value 'a' before 'b'"),
    ],
    ids=["two exchanged", "another one under the old name"],
)
def test_a_name_that_is_another_label_s_now(
    setting: MirrorSetting, statements: Sequence[str]
) -> None:
    filled(setting)
    setting.execute("insert into t (id, st) values (3, 'a'), (4, 'b')", *statements)
    setting.execute("insert into t (id, st) values (5, 'a'), (6, 'b')")
    before = setting.changes()
    assert refreshed(setting).stale.keys() == {LABEL}
    applied(setting, before)
    setting.execute("insert into t (id, st) values (7, 'a')", "delete from t where id = 3")
    applied(setting, setting.changes())


def test_a_former_name_that_becomes_another_label_s(setting: MirrorSetting) -> None:
    filled(setting)
    setting.execute(rename("a", "A"))
    assert refreshed(setting).stale == {}
    setting.execute("insert into t (id, st) values (3, 'A')", rename("b", "a"))
    setting.execute("insert into t (id, st) values (4, 'a')")
    assert refreshed(setting).stale.keys() == {LABEL}
    applied(setting, setting.changes())


@pytest.mark.parametrize(
    "table",
    [
        "create table t (st s primary key, n int)",
        "create table t (id int primary key, p pair)",
        "create table t (id int primary key, r span)",
    ],
    ids=["key", "composite", "range"],
)
def test_what_an_event_cannot_be_read_of_is_filled_again(
    setting: MirrorSetting, table: str
) -> None:
    values = {"st s": "('a', 1)", "p pair": "(1, '(a,1)')", "r span": "(1, '[a,b)')"}
    row = next(row for column, row in values.items() if column in table)
    filled(
        setting,
        "create type s as enum ('a', 'b')",
        "create type pair as (st s, n int)",
        "create type span as range (subtype = s)",
        table,
    )
    setting.execute(f"insert into t values {row}", rename("a", "A"))
    changes = setting.changes()
    assert refreshed(setting).stale.keys() == {LABEL}
    applied(setting, changes)
    setting.execute("delete from t")
    applied(setting, setting.changes())


def test_an_enum_that_is_made_again(setting: MirrorSetting) -> None:
    """With the same labels, which are others."""
    filled(
        setting,
        "create type s as enum ('a', 'b')",
        "create table t (id int primary key, st s)",
        "insert into t values (1, 'a')",
    )
    setting.execute(
        "alter type s rename to gone",
        "create type s as enum ('b', 'a')",
        "alter table t alter st type s using st::text::s",
        "insert into t values (2, 'b')",
    )
    refreshed(setting)
    applied(setting, setting.changes())
    assert setting.state.execute('select id from mirror."public.t" order by st').fetchall() == [
        (2,),
        (1,),
    ]


def test_the_default_of_a_column_that_was_added_before(setting: MirrorSetting) -> None:
    filled(setting, "create type s as enum ('a', 'b')", "create table t (id int primary key)")
    setting.execute("insert into t values (1)")
    changes = setting.changes()
    setting.execute("alter table t add st s default 'a', add list s[] default '{a,b}'")
    setting.follow_source(LABEL)
    setting.execute(rename("a", "A"))
    refreshed(setting)
    applied(setting, changes)
