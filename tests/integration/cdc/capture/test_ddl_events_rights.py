"""What the role of capture can make of functions that run with a superuser's rights: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from cdc.config import Config, Source
from cdc.errors import SourceError
from cdc.source.postgres import Connection, connect
from cdc.source.schema_owner import refuse_lesser_owner
from headwater.cli.uninstall.plan import source_schema
from headwater.cli.uninstall.steps import remove_schema
from migrations.ddl_events import set_ddl_events
from migrations.emit_topics import set_emit_topics
from migrations.runner import migrate
from snapshots.signals import Signals
from snapshots.state import refuse_older_schema
from snapshots.status import snapshots

FUNCTIONS = """
select format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)),
       pg_get_function_result(p.oid)
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname = 'headwater_ddl' or n.nspname = 'headwater' and p.proname like 'ddl%'
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """The superuser ``conn``, and ``role``, which owns the schema headwater, in one database."""

    database: str
    role: str
    conn: Connection

    def as_role(self, *statements: str) -> list[str]:
        """Tries each; the SQLSTATEs of those that were refused."""
        refused = []
        with connect(psycopg.conninfo.make_conninfo(self.database, user=self.role)) as conn:
            for statement in statements:
                try:
                    conn.execute(statement.encode())
                except psycopg.Error as error:
                    refused.append(error.sqlstate or "")
        return refused

    def is_superuser(self) -> bool:
        sql = "select rolsuper from pg_roles where rolname = %s"
        return self.conn.execute(sql, (self.role,)).fetchone() == (True,)

    @property
    def promotion(self) -> str:
        return f"alter role {self.role} superuser"


@pytest.fixture
def setting(database: str, source_name: str) -> Iterator[Setting]:
    role = f"role_{source_name}"
    with connect(database) as conn:
        conn.execute(f"create role {role} login".encode())
        conn.execute(f"create schema headwater authorization {role}".encode())
        conn.execute(f"grant create on schema public to {role}".encode())
        try:
            with connect(psycopg.conninfo.make_conninfo(database, user=role)) as own:
                migrate(own)
            conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (role,))
            yield Setting(database, role, conn)
        finally:
            conn.execute("drop event trigger if exists headwater_ddl")
            conn.execute("drop event trigger if exists headwater_drop")
            conn.execute(f"drop owned by {role}; drop role {role}".encode())


def test_the_owner_of_the_schema_cannot_become_superuser_by_the_event_trigger(
    setting: Setting,
) -> None:
    set_ddl_events(setting.conn, True)
    found = setting.conn.execute(FUNCTIONS).fetchall()
    assert found
    for function, result in found:
        setting.as_role(
            f"drop function {function}",
            f"create or replace function {function} returns {result} language plpgsql as"
            f" $$ begin {setting.promotion}; return null; end $$",
        )
    setting.as_role("create table public.mine (id int)", "drop table public.mine")
    setting.conn.execute("create table public.others (id int)")
    assert not setting.is_superuser()


def test_a_schema_of_that_name_which_another_role_made_is_refused(setting: Setting) -> None:
    setting.conn.execute(f"create schema headwater_ddl authorization {setting.role}".encode())
    with pytest.raises(SourceError, match=f"schema headwater_ddl belongs to {setting.role}"):
        set_ddl_events(setting.conn, True)


def test_the_trigger_goes_without_a_trace(setting: Setting) -> None:
    set_ddl_events(setting.conn, True)
    set_ddl_events(setting.conn, True)
    set_ddl_events(setting.conn, False)
    assert setting.conn.execute(FUNCTIONS).fetchall() == []
    found = setting.conn.execute("select to_regnamespace('headwater_ddl')::text").fetchone()
    assert found == (None,)


def test_a_superuser_runs_nothing_that_the_owner_of_the_schema_put_there(
    setting: Setting,
) -> None:
    setting.as_role(
        "create function headwater.promote() returns trigger language plpgsql as"
        f" $$ begin {setting.promotion}; return new; end $$",
        "create trigger promote before insert on headwater.migration"
        " for each row execute function headwater.promote()",
        "delete from headwater.migration where version = 5",
    )
    with pytest.raises(SourceError, match=f"schema headwater belongs to {setting.role}"):
        refuse_lesser_owner(setting.conn)
    with pytest.raises(SourceError, match="belongs to"):
        migrate(setting.conn)
    assert not setting.is_superuser()


def test_no_command_reads_what_the_owner_of_the_schema_put_there(setting: Setting) -> None:
    setting.as_role(
        "create function headwater.promote() returns bigint language plpgsql as"
        f" $$ begin {setting.promotion}; return 1; end $$",
        "drop table headwater.snapshot cascade; drop table headwater.signal;"
        " create view headwater.snapshot as select headwater.promote() as id, 's'::text as source,"
        " 'initial'::text as kind;"
        " create view headwater.signal as select headwater.promote() as id, null::text as source",
    )
    source = Source.model_construct(name="s", dsn=setting.database)
    signals = Signals(Config.model_construct(source=source), no_snapshot, no_snapshot)
    for read in (
        lambda: source_schema(setting.conn, "s"),
        lambda: snapshots(setting.conn, "s"),
        lambda: refuse_older_schema(setting.conn),
        signals.look,
        signals.interrupted,
    ):
        with pytest.raises(SourceError, match=f"schema headwater belongs to {setting.role}"):
            read()
    assert not setting.is_superuser()


def no_snapshot(_id: int) -> None:
    pytest.fail("a snapshot was asked for")


def test_a_source_that_leaves_takes_its_rows_from_the_schema(setting: Setting) -> None:
    with connect(psycopg.conninfo.make_conninfo(setting.database, user=setting.role)) as own:
        for source in ("left", "other"):
            set_emit_topics(own, source, ["mails"])
            own.execute("insert into headwater.signal (id, type, source) values (%s, 'log', %s)",
                        (source, source))  # fmt: skip
        assert remove_schema(own, "left", True) == "source left forgotten in schema headwater"
        for table in (b"emit_topic", b"signal"):
            rows = own.execute(b"select source from headwater." + table).fetchall()
            assert rows == [("other",)]
