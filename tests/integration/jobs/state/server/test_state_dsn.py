"""``apply.state_dsn``: what can be a state database, and whose it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import conninfo, sql

from cdc.config import Config
from cdc.errors import HeadwaterError, RetryableError, StateError
from cdc.source.postgres import connect as connect_source
from jobs.state.server import requirements
from jobs.state.server.database import running_dsn, state_server
from jobs.state.server.identity import Identity
from jobs.state.server.migration import pending
from migrations.runner import migrate as migrate_source
from stack import servers
from stack.guardian import Guardian
from stack.ports import free_port
from stack.postgres import Postgres
from tests.support.commands.state_places import SHOP, keeper, state_config
from tests.support.servers.proxy import Proxy

END_KEEPERS = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where datname = current_database() and application_name like 'headwater apply, pid%'"
)


@pytest.fixture
def config(tmp_path: Path, store_database: str) -> Config:
    return state_config(tmp_path, state_dsn=store_database, retry_s=0.5)


def refused(config: Config, source: Identity = SHOP) -> str:
    with pytest.raises(StateError) as caught, state_server(config, source, busy_s=0.1):
        pass
    return str(caught.value)


def execute(dsn: str, statement: str) -> None:
    name = conninfo.conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL(statement).format(sql.Identifier(str(name))))


def test_a_database_of_ones_own_is_made_ready_and_kept(config: Config) -> None:
    with state_server(config, SHOP) as server, server.connect() as conn:
        assert server.is_new
        assert not server.embedded
        conn.execute("insert into headwater.stream values ('t', 0, 7)")
    assert not list(Path(config.apply.state).rglob("*"))
    assert running_dsn(config) == config.apply.state_dsn
    execute(config.apply.state_dsn, "alter database {} set transform_null_equals = on")
    with state_server(config, SHOP) as server, server.connect() as conn:
        assert not server.is_new
        assert pending(conn) == []
        held = conn.execute("select topic, partition, next_offset from headwater.stream")
        assert held.fetchall() == [("t", 0, 7)]
        shown = conn.execute(
            "select current_setting('IntervalStyle'), current_setting('jit'),"
            " current_setting('lc_numeric'), current_setting('search_path'),"
            " current_setting('transform_null_equals')"
        ).fetchone()
        assert shown == ("iso_8601", "off", "C", "pg_catalog", "off")


def test_two_processes_never_keep_the_same_database(config: Config) -> None:
    with state_server(config, SHOP):
        said = refused(config)
    assert "in use by headwater apply, pid " in said
    assert "Stop it, or wait until it has finished" in said


def test_a_child_that_outlives_its_keeper_does_not_hold_the_lock(
    config: Config, tmp_path: Path, guardian: Guardian
) -> None:
    child = keeper(tmp_path, config.apply.state_dsn)
    guardian.end(child.pid)
    assert f"in use by headwater apply, pid {child.pid}" in refused(config)
    child.kill()
    child.wait()
    with state_server(config, SHOP) as server:
        server.hold()


def test_the_lock_is_taken_again_when_its_session_was_lost(config: Config) -> None:
    dsn = config.apply.state_dsn
    with state_server(config, SHOP) as server:
        server.hold()
        execute(dsn, END_KEEPERS)
        server.hold()
        assert "in use by" in refused(config)


def test_a_lock_that_another_process_took_is_not_taken_back(config: Config) -> None:
    dsn = config.apply.state_dsn
    with (
        state_server(config, SHOP) as server,
        psycopg.connect(dsn, autocommit=True, application_name="other") as other,
    ):
        execute(dsn, END_KEEPERS)
        other.execute("select pg_advisory_lock(%s)", [0x6865_6164_7374_6174])
        with pytest.raises(StateError, match="in use by other"):
            server.hold()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "alter database {} set default_transaction_read_only = on",
            "is read-only. Run `ALTER DATAB",
        ),
        ("create schema shown", "has a schema shown that Headwater did not create. Set a"),
    ],
)
def test_a_database_that_cannot_be_used_is_refused(config: Config, change: str, said: str) -> None:
    execute(config.apply.state_dsn, change)
    assert said in refused(config)


def test_another_encoding_is_refused(config: Config) -> None:
    dsn = config.apply.state_dsn
    name = f"{conninfo.conninfo_to_dict(dsn)['dbname']}_latin"
    execute(
        dsn,
        f"create database {name} template template0 encoding 'LATIN1' locale 'C'"
        " locale_provider libc",
    )
    try:
        latin = config.apply.model_copy(
            update={"state_dsn": conninfo.make_conninfo(dsn, dbname=name)}
        )
        said = refused(config.model_copy(update={"apply": latin}))
    finally:
        execute(dsn, f"drop database {name} with (force)")
    assert (
        "its encoding is LATIN1. Create one with `CREATE DATABASE ... TEMPLATE template0 ENCODING"
        in said
    )


def test_an_older_version_is_refused(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "MINIMUM_MAJOR", 99)
    assert "Name a PostgreSQL 99 or newer in apply.state_dsn" in refused(config)


def test_a_role_without_the_rights_is_told_them(config: Config, source_name: str) -> None:
    dsn = config.apply.state_dsn
    execute(dsn, f"create role {source_name} login")
    try:
        mine = conninfo.make_conninfo(dsn, user=source_name)
        apply = config.apply.model_copy(update={"state_dsn": mine})
        limited = config.model_copy(update={"apply": apply})
        said = refused(limited)
        assert "the role lacks CREATE on the database. Run `GRANT CREATE ON DATABASE " in said
        execute(dsn, f"grant create on database {{}} to {source_name}")
        with state_server(limited, SHOP) as server, server.connect() as conn:
            assert pending(conn) == []
    finally:
        execute(dsn, f"drop owned by {source_name} cascade")
        execute(dsn, f"drop role {source_name}")


def test_the_source_itself_is_refused(config: Config) -> None:
    with psycopg.connect(config.apply.state_dsn) as conn:
        row = conn.execute(
            "select system_identifier::text, current_database() from pg_control_system()"
        ).fetchone()
    assert row is not None
    assert "is the source itself" in refused(config, Identity("shop", *row))
    with connect_source(config.apply.state_dsn) as source:
        migrate_source(source)  # as `headwater init` does
    assert "is the source itself" in refused(config)


def test_the_state_of_another_source_is_refused(config: Config) -> None:
    with state_server(config, SHOP):
        pass
    other = Identity("shop", "7301", "warehouse")
    assert "belongs to source shop (database shop, system 7301), not to" in refused(config, other)


def test_a_schema_of_a_newer_headwater_is_refused(config: Config) -> None:
    with state_server(config, SHOP) as server, server.connect() as conn:
        conn.execute("insert into headwater.migration values (9000, 'later', 'x')")
    assert "is at version 9000" in refused(config)


@pytest.fixture
def standby(tmp_path: Path) -> Iterator[str]:
    """A server that waits for WAL of a primary."""
    home = tmp_path / "standby"
    try:
        servers.start(home, ["postgres"])
        servers.stop(home)
        data = Postgres().directory(home) / "data"
        (data / "standby.signal").touch()
        os.chown(data / "standby.signal", data.stat().st_uid, data.stat().st_gid)
        yield servers.start(home, ["postgres"]).postgres_dsn
    finally:
        servers.purge(home)


def test_a_standby_is_refused(tmp_path: Path, standby: str) -> None:
    said = refused(state_config(tmp_path, state_dsn=standby))
    assert "is a standby, which accepts no writes. Set the primary" in said


def test_wrong_words_are_told_without_the_password(config: Config) -> None:
    wrong = config.apply.model_copy(update={"state_dsn": "postgresql://a:s3cr3t@[/x"})
    said = refused(config.model_copy(update={"apply": wrong}))
    assert "apply.state_dsn is not a connection string" in said
    assert "s3cr3t" not in said


def test_a_database_that_is_away_is_waited_for(config: Config, tmp_path: Path) -> None:
    place, port = urlsplit(config.apply.state_dsn), free_port(set())
    netloc = f"{place.username}@127.0.0.1:{port}"
    away = state_config(tmp_path, state_dsn=place._replace(netloc=netloc).geturl(), retry_s=0.3)
    told: list[HeadwaterError] = []
    with pytest.raises(RetryableError), state_server(away, SHOP, told.append):
        pass
    assert len(told) == 1
    assert "PostgreSQL is running there" in told[0].hint

    patient = state_config(tmp_path, state_dsn=away.apply.state_dsn, retry_s=60.0)
    proxies: list[Proxy] = []

    def come_back(_: HeadwaterError) -> None:
        assert place.port is not None
        proxies.append(Proxy(port, place.port))

    try:
        with state_server(patient, SHOP, come_back) as server:
            assert server.is_new
    finally:
        for proxy in proxies:
            proxy.close()
    assert len(proxies) == 1
