"""DDL in the middle of the stream: a mirror follows it exactly, or is filled anew and says why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc.config.columns import ColumnRule
from cdc.errors import RetryableError
from cdc.source.columns.treated_columns import StreamColumns
from cdc.source.postgres import connect
from migrations.runner import migrate
from tests.support.views.mirror_tables import MirrorSetting

LABEL = "public.t"


@pytest.fixture
def setting(database: str, store_database: str) -> Iterator[MirrorSetting]:
    made = MirrorSetting(database, store_database)
    made.execute(
        "create table t (id int primary key, a text, b numeric(10,2), c varchar(10))",
        "insert into t select i, 'a' || i, i, 'c' || i from generate_series(1, 20) i",
    )
    made.stream()
    made.fill(LABEL)
    yield made
    made.close()


FOLLOWED = {
    "add": ["alter table t add d int", "update t set d = id where id < 5"],
    "add with a default": ["alter table t add d int default 7", "insert into t values (21)"],
    "add with a text that is quoted": ["alter table t add d text default 'it''s, \"{}\\'"],
    "add with an array": ["alter table t add d int[] default '{1,NULL}'"],
    "add a time with a zone": ["alter table t add d timetz[] default '{12:00+05:30,NULL}'"],
    "add a default that is dropped": [
        "alter table t add d text default 'x y'",
        "alter table t alter d drop default",
    ],
    "add an enum": [
        "create type mood as enum ('sad', 'ok')",
        "alter table t add d mood default 'ok'",
    ],
    "drop": ["alter table t drop a"],
    "rename": ["alter table t rename a to z"],
    "exchange names": [
        "begin",
        "alter table t rename a to x",
        "alter table t rename c to a",
        "alter table t rename x to c",
        "commit",
    ],
    "drop, and add with the same name": ["alter table t drop a", "alter table t add a int"],
    "a longer varchar": ["alter table t alter c type varchar(20)"],
    "a varchar to text": ["alter table t alter c type text"],
    "a wider numeric": ["alter table t alter b type numeric(14,2)"],
    "not null": ["alter table t alter a set not null"],
    "several": [
        "alter table t add d int default 1, drop b",
        "alter table t rename a to q",
        "alter table t add b text default 'new'",
    ],
}
REFILLED = {
    "another type": (["alter table t alter b type text using 'x' || b"], "another type"),
    "a using that keeps the type's family": (
        ["alter table t alter c type varchar(20) using upper(c)"],
        "another type",
    ),
    "a volatile default": (["alter table t add d uuid default gen_random_uuid()"], "not told"),
    "a serial": (["alter table t add d serial"], "not told"),
    "rewritten after the default": (
        [
            "alter table t add d int default 3",
            "alter table t alter d drop default",
            "vacuum full t",
        ],
        "not told",
    ),
    "another key": (
        ["alter table t drop constraint t_pkey", "alter table t add primary key (a)"],
        "another key",
    ),
    "rename the key": (["alter table t rename id to number"], "(id) is called (number)"),
    "made again": (
        ["drop table t", "create table t (id int primary key, a text, b numeric(10,2), n int)"],
        "made again",
    ),
    "dropped, and added with the same name and type": (
        ["alter table t drop c", "alter table t add c varchar(10) default 'new'"],
        "events do not tell",
    ),
}


def streamed(setting: MirrorSetting) -> None:
    """An event of the newest version, and one of each kind."""
    columns = [row[0] for row in setting.source.execute(
        "select attname from pg_attribute where attrelid = 'public.t'::regclass and attnum > 0"
        " and not attisdropped order by attnum")]  # fmt: skip
    key = next(name for name in columns if name in ("id", "number"))
    rest = [name for name in columns if name in ("a", "c")] or columns[1:2]
    setting.execute(
        f"insert into t ({key}, a) values (100, '5'), (101, '6')"
        if "a" in columns
        else f"insert into t ({key}) values (100), (101)",
        f"update t set {rest[0]} = '9' where {key} = 3",
        f"delete from t where {key} = 4",
    )


@pytest.mark.parametrize("statements", FOLLOWED.values(), ids=FOLLOWED)
def test_a_mirror_follows(setting: MirrorSetting, statements: list[str]) -> None:
    setting.execute("update t set a = 'before' where id = 1", *statements)
    streamed(setting)
    setting.catch_up()
    setting.assert_equal(LABEL)
    assert not setting.refilled
    setting.execute("truncate t")
    streamed(setting)
    setting.catch_up()
    setting.assert_equal(LABEL)


@pytest.mark.parametrize(("statements", "reason"), REFILLED.values(), ids=REFILLED)
def test_a_mirror_that_cannot_follow_is_filled_anew(
    setting: MirrorSetting, statements: list[str], reason: str
) -> None:
    setting.execute("update t set a = 'before' where id = 1", *statements)
    streamed(setting)
    setting.catch_up()
    setting.assert_equal(LABEL)
    assert reason in setting.refilled[0]
    setting.execute("update t set b = null")
    setting.catch_up()
    setting.assert_equal(LABEL)
    assert len(setting.refilled) == 1


def test_a_value_that_is_in_the_partition_of_the_key_s_old_name(setting: MirrorSetting) -> None:
    """Kafka keeps no order of two partitions: a later update, which leaves it out, comes first."""
    setting.execute(
        "alter table t alter a set storage external",
        "update t set a = repeat('one', 2000) where id = 1",
    )
    setting.catch_up()
    setting.execute("update t set a = repeat('two', 2000) where id = 1")
    before = setting.changes()
    setting.execute("alter table t rename id to number", "update t set b = 9 where number = 1")
    after = setting.changes()
    assert after[-1].unchanged == ["a"]
    for part in (after, before):
        setting.follow(part)
        setting.apply(part)
    setting.assert_equal(LABEL)


def test_another_type_of_a_treated_column_changes_what_is_treated(setting: MirrorSetting) -> None:
    """Its text is another one, if its rows were written anew; what is sent is text as before. And
    nothing is read while capture treats the column otherwise."""

    def shown() -> str:
        return str(setting.state.execute('select c from mirror."public.t" where id = 7').fetchone())

    columns = {"public.t": {"c": ColumnRule("truncate", "3")}}
    setting.config = setting.config.model_copy(update={"columns": columns})
    setting.fill(LABEL)
    setting.execute("alter table t alter c type varchar(20)")
    setting.follow_source(LABEL)
    assert (shown(), setting.refilled) == ("('c7',)", [])
    setting.execute("alter table t alter c type varchar(20) using 'x' || c")
    setting.execute("alter table t alter c type varchar(30) using 'y' || c")
    setting.follow_source(LABEL)
    assert shown() == "('yxc',)"
    setting.execute("alter table t alter c type bytea using convert_to(c, 'utf8')")
    setting.follow_source(LABEL)
    assert shown() == "('\\\\x7',)"
    assert setting.refilled == ["its column c has another type"] * 2
    with connect(setting.config.dsn) as conn:
        migrate(conn)
    with pytest.raises(RetryableError, match="capture has not been started yet with what is to be"):
        setting.fill(LABEL)
    with pytest.raises(RetryableError, match="Start capture again"):
        setting.follow_source(LABEL)
    with connect(setting.config.dsn) as conn:
        StreamColumns(setting.config).begin(conn)
    setting.fill(LABEL)
