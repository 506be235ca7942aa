"""``headwater check`` on real servers: what it finds, what it says to do, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
import redis
from deltalake import write_deltalake

from cdc.source.postgres import connect
from cdc.source.slot import drop_slot
from stack import servers
from stack.ports import free_port
from tests.support.commands.deployment import Deployment


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute("create table public.a (id int primary key)")
    return deployment


@pytest.fixture
def unused_port() -> int:
    return free_port(set())


@pytest.fixture(scope="module")
def replica_level(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with ``wal_level = replica`` whose only slot is taken."""
    home = tmp_path_factory.mktemp("replica-level")
    settings = {"wal_level": "replica", "max_replication_slots": "1", "fsync": "off"}
    try:
        dsn = servers.start(home, ["postgres"], {"postgres": settings}).postgres_dsn
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("select pg_create_physical_replication_slot('taken')")
            conn.execute("create table public.a (id int primary key)")
        yield dsn
    finally:
        servers.purge(home)


def only_error(shop: Deployment) -> dict[str, str]:
    code, found = shop.check()
    assert code == 1
    assert len(found["error"]) == 1, found["error"]
    return found["error"][0]


def test_a_source_that_is_ready_has_no_errors_before_and_after_init(shop: Deployment) -> None:
    code, found = shop.check()
    assert (code, found["error"]) == (0, [])
    shop.init()
    code, found = shop.check()
    assert (code, found["error"]) == (0, [])
    slot = next(f for f in found["ok"] if f["check"] == "slot")
    assert "no capture reads it" in slot["message"]
    told = shop.run("lag").stdout
    assert ("not running" in told, "headwater init" in told) == (True, False), told
    shown = shop.run("check")
    assert shown.returncode == 0
    assert "finding, and what to do" in shown.stdout


def test_an_unreachable_source_is_one_error_beside_the_other_findings(
    shop: Deployment, unused_port: int
) -> None:
    shop.dsn = f"postgresql://app:s3cr3t@127.0.0.1:{unused_port}/shop"
    error = only_error(shop)
    assert error["check"] == "source"
    assert f"app@127.0.0.1:{unused_port}/shop" in error["message"]
    assert "Check that PostgreSQL is running there" in error["hint"]
    assert "s3cr3t" not in json.dumps(shop.check()[1])


def test_a_role_that_does_not_exist_is_named(shop: Deployment) -> None:
    shop.dsn = psycopg.conninfo.make_conninfo(shop.dsn, user="nobody_here")
    assert 'role "nobody_here" does not exist' in only_error(shop)["message"]


def test_unreachable_kafka_and_stores_are_named(shop: Deployment, unused_port: int) -> None:
    address = f"127.0.0.1:{unused_port}"
    shop.bootstrap = address
    shop.extra = (
        f'[stores.search]\nkind = "opensearch"\nurl = "http://u:s3cr3t@{address}"\n'
        f'[stores.cache]\nkind = "redis"\nurl = "redis://{address}/0"\n'
        '[stores.lake]\nkind = "delta"\npath = "./lake"\n'
    )
    code, found = shop.check()
    assert code == 1
    assert [f["check"] for f in found["error"]] == ["kafka", "store search", "store cache"]
    assert all(address in f["message"] for f in found["error"])
    assert "s3cr3t" not in json.dumps(found)
    assert "store lake" in [f["check"] for f in found["ok"]]


def test_what_a_store_would_refuse_later_is_found_before(
    shop: Deployment, redis_server: str, store_database: str
) -> None:
    other = f"other_{shop.name}"
    with psycopg.connect(store_database, autocommit=True) as conn:
        conn.execute(f"create schema shown; create table shown.{other} (id int)".encode())
    lake, places = shop.home / "lake", ("notes", "foreign", "cached")
    (lake / f"notes_{shop.name}").mkdir(parents=True)
    (lake / f"notes_{shop.name}" / "notes.txt").write_text("mine")
    write_deltalake(str(lake / f"foreign_{shop.name}"), pa.table({"id": [1]}))
    with redis.Redis.from_url(redis_server) as client:
        client.set(f"cached_{shop.name}@live", "mine")
    shop.extra = (
        f'[stores.cache]\nkind = "redis"\nurl = "{redis_server.rpartition("/")[0]}/99"\n'
        '[stores.away]\nkind = "delta"\npath = "/proc/nolake"\n'
        f'[stores.lake]\nkind = "delta"\npath = "{lake}"\n'
        f'[stores.kept]\nkind = "redis"\nurl = "{redis_server}"\n'
        f'[stores.base]\nkind = "postgres"\ndsn = "{store_database}"\ntarget_schema = "shown"\n'
        f'[views.{other}]\nstore = "base"\nkey = ["id"]\nsql = "select id from a"\n'
    )
    shop.extra += "".join(
        f'[views.{place}_{shop.name}]\nstore = "{"kept" if place == "cached" else "lake"}"\n'
        'key = ["id"]\nsql = "select id from a"\n'
        for place in (*places, "free")
    )
    code, found = shop.check()
    assert code == 1
    wrong = {f["check"]: f["message"] for f in found["error"]}
    views = {f"view {place}_{shop.name}" for place in places}
    assert set(wrong) == {"store cache", "store away", f"view {other}", *views}
    notes, foreign, cached = (wrong[f"view {place}_{shop.name}"] for place in places)
    assert "is not a Delta table" in notes
    assert "is a Delta table that does not belong to this view" in foreign
    assert f"the key cached_{shop.name}@live in Redis does not belong to this view" in cached
    assert "DB index is out of range" in wrong["store cache"]
    assert "/proc: No such file or directory" in wrong["store away"]
    assert f"PostgreSQL already has a table or view shown.{other}" in wrong[f"view {other}"]
    hints = {f["check"]: f["hint"] for f in found["error"]}
    assert hints["store cache"] == "Correct the url or path of stores.cache."


def test_wal_level_replica_and_no_free_slot_are_found_and_stop_init(
    shop: Deployment, replica_level: str
) -> None:
    shop.dsn = replica_level
    code, found = shop.check()
    assert code == 1
    hints = {f["check"]: f["hint"] for f in found["error"]}
    assert set(hints) == {"wal_level", "max_replication_slots"}
    assert "wal_level = logical" in hints["wal_level"]
    assert "Raise max_replication_slots" in hints["max_replication_slots"]
    refused = shop.run("init")
    assert refused.returncode == 1
    assert "wal_level is replica, not logical" in refused.stderr
    with connect(replica_level) as conn:
        assert conn.execute("select to_regnamespace('headwater')").fetchone() == (None,)


def test_a_database_of_texts_without_an_encoding_is_refused(shop: Deployment) -> None:
    name = f"{shop.name}_ascii"
    shop.execute(f"create database {name} encoding 'SQL_ASCII' locale 'C' template template0")
    try:
        shop = replace(shop, dsn=f"{shop.dsn.rsplit('/', 1)[0]}/{name}")
        shop.execute(
            "create table public.a (id int primary key, b text)",
            "insert into public.a values (1, 'caf' || chr(233))",
        )
        error = only_error(shop)
        assert (error["check"], "UTF8" in error["hint"]) == ("encoding", True)
        done = shop.run("init")
        assert done.returncode == 1
        assert "SQL_ASCII" in done.stderr
    finally:
        with psycopg.connect(shop.dsn.rsplit("/", 1)[0] + "/postgres", autocommit=True) as conn:
            conn.execute(f"drop database {name}".encode())


def test_tables_that_cannot_be_captured_are_one_error_each(shop: Deployment) -> None:
    shop.execute("create table public.bare (v int)")
    shop.tables = ("public.*", "public.missing")
    _, found = shop.check()
    messages = [f["message"] for f in found["error"]]
    assert len(messages) == 2
    assert messages[0].startswith("table public.missing does not exist")
    assert messages[1].startswith("public.bare has no replica identity")
    assert messages[1].endswith(", or leave public.bare out with source.exclude.")


def test_after_init_what_is_missing_is_an_error_with_the_way_back(shop: Deployment) -> None:
    shop.init()
    with connect(shop.dsn) as conn:
        drop_slot(conn, f"headwater_{shop.name}")
    error = only_error(shop)
    assert (error["check"], error["hint"]) == (
        "slot",
        "Run `headwater init --again` to take a new snapshot.",
    )


def test_a_table_added_to_the_configuration_after_init_is_told(shop: Deployment) -> None:
    shop.init()
    shop.execute("create table public.later (id int primary key)")
    error = only_error(shop)
    assert error["check"] == "publication"
    assert "headwater table add" in error["hint"]


def test_settings_that_cost_time_or_the_slot_are_warnings(shop: Deployment) -> None:
    name = shop.dsn.rsplit("/", 1)[1]
    shop.execute(f"alter database {name} set synchronous_commit = off")
    code, found = shop.check()
    assert code == 0
    warned = {f["check"]: f for f in found["warning"]}
    assert "200 ms" in warned["synchronous_commit"]["message"]
    assert "without limit" in warned["max_slot_wal_keep_size"]["message"]
