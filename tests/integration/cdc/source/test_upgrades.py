"""A source that an earlier version set up: what `headwater init` and the DDL trigger make of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from cdc.capture.ddl_trigger import trigger_secret
from cdc.config import Config
from cdc.config import Source as Settings
from cdc.errors import SourceError
from cdc.source.postgres import Connection, connect
from headwater.check.ddl_trigger import ddl_events
from headwater.check.emit_topics import outbox_tables, public_usage
from headwater.check.source import Source
from headwater.cli.init import steps as init_steps
from migrations.ddl_events import set_ddl_events
from migrations.emit_topics import set_emit_topics
from migrations.runner import migrate, migrations, pending

BEFORE_EMIT_TOPICS = 5
OLD_TRIGGER = """
create function headwater.ddl_columns(tbl oid) returns jsonb language sql as 'select null::jsonb';
create function headwater.ddl_said(tag text, tbl oid, renamed int)
returns text language sql as 'select headwater.ddl_columns(tbl)::text';
create function headwater.ddl_event()
returns event_trigger language plpgsql security definer as 'begin return; end';
create event trigger headwater_ddl on ddl_command_end execute function headwater.ddl_event();
create event trigger headwater_drop on sql_drop execute function headwater.ddl_event();
"""
LEFT = "select proname from pg_proc where pronamespace = 'headwater'::regnamespace"
LEFT += " and proname like 'ddl%'"


@dataclass(slots=True)
class Setting:
    """The superuser ``conn`` and capture's role in one database; ``steps`` are what init said."""

    database: str
    role: str
    conn: Connection
    steps: list[str] = field(default_factory=list)

    def as_role(self) -> Connection:
        return connect(psycopg.conninfo.make_conninfo(self.database, user=self.role))

    def step(self, what: str) -> None:
        self.steps.append(what)

    def init(self, conn: Connection, *topics: str) -> None:
        init_steps._prepare_schema(config(*topics), conn, self)  # type: ignore[arg-type]


def config(*topics: str) -> Config:
    return Config.model_validate(
        {
            "source": {"name": "src", "dsn": "postgresql://u@h/d", "tables": ["public.t"]},
            "kafka": {"bootstrap_servers": "localhost:9092"},
            "capture": {"emit_topics": list(topics)},
        }
    )


@pytest.fixture
def setting(database: str, source_name: str) -> Iterator[Setting]:
    role = f"role_{source_name}"
    with connect(database) as conn:
        conn.execute(f"create role {role} login".encode())
        try:
            yield Setting(database, role, conn)
        finally:
            conn.execute("drop event trigger if exists headwater_ddl")
            conn.execute("drop event trigger if exists headwater_drop")
            conn.execute(f"drop owned by {role}; drop role {role}".encode())


def emit(conn: Connection) -> None:
    conn.execute("select headwater.emit('paid', 'k', 'v')")


def test_emit_goes_on_while_init_upgrades_the_schema(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(setting.conn, migrations()[:BEFORE_EMIT_TOPICS])

    def meanwhile(*args: Any) -> bool:
        with connect(setting.database) as other:
            emit(other)
        return set_emit_topics(*args)

    monkeypatch.setattr(init_steps, "set_emit_topics", meanwhile)
    setting.init(setting.conn, "paid")
    emit(setting.conn)
    assert setting.steps == ["schema headwater is up to date", "headwater.emit accepts paid"]


def test_an_upgrade_is_whole_or_nothing(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> bool:
        raise SourceError("no topics")

    migrate(setting.conn, migrations()[:BEFORE_EMIT_TOPICS])
    monkeypatch.setattr(init_steps, "set_emit_topics", fails)
    with pytest.raises(SourceError, match="no topics"):
        setting.init(setting.conn, "paid")
    assert pending(setting.conn) == migrations()[BEFORE_EMIT_TOPICS:]
    emit(setting.conn)


def test_a_right_of_public_that_is_not_the_roles_to_take_is_told(setting: Setting) -> None:
    setting.conn.execute("create schema headwater; grant usage on schema headwater to public")
    setting.conn.execute(f"grant usage, create on schema headwater to {setting.role}".encode())
    with setting.as_role() as own:
        setting.init(own, "paid")
        (found,) = public_usage(own)
    revoke = "REVOKE USAGE ON SCHEMA headwater FROM PUBLIC"
    assert (found.level, found.sql) == ("warning", (revoke,))
    assert setting.steps[1].endswith(f"its owner has to run: {revoke}")
    setting.conn.execute(revoke.encode())
    assert list(public_usage(setting.conn)) == []


def test_the_trigger_of_an_earlier_version_is_found_and_goes_with_its_functions(
    setting: Setting,
) -> None:
    migrate(setting.conn)
    source = Source(config(), setting.conn, known=True, initialised=True)
    for wanted in (True, False):
        set_ddl_events(setting.conn, False)
        setting.conn.execute(OLD_TRIGGER.encode())
        (found,) = ddl_events(source)
        assert (found.level, "earlier version" in found.message) == ("error", True)
        set_ddl_events(setting.conn, wanted)
        assert setting.conn.execute(LEFT.encode()).fetchall() == []
        assert list(ddl_events(source)) == []


def test_capture_reads_the_secret_where_it_owns_only_what_is_in_the_schema(
    setting: Setting,
) -> None:
    setting.conn.execute("create schema headwater")
    setting.conn.execute(f"grant usage, create on schema headwater to {setting.role}".encode())
    with setting.as_role() as own:
        migrate(own)
        set_ddl_events(setting.conn, True)
        assert trigger_secret(own)
        source = Source(config(), own, known=True, initialised=True)
        assert list(ddl_events(source)) == []
        setting.conn.execute(f"revoke all on headwater_ddl.secret from {setting.role}".encode())
        assert trigger_secret(own) is None
        (found,) = ddl_events(source)
        for statement in found.sql:
            setting.conn.execute(statement.encode())
        assert trigger_secret(own)


def test_tables_that_may_have_the_topic_of_emitted_events_are_found(setting: Setting) -> None:
    setting.conn.execute("create schema outbox; create table outbox.paid (id int primary key)")
    source = Settings(name="src", dsn="-", tables=("public.*",))
    assert outbox_tables(setting.conn, source) == {"src.outbox.paid"}
