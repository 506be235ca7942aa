"""What a person gets wrong, through the real command line: one line that names it and the way out,
an exit code, and nothing half done. What one verb alone refuses is tested with that verb."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cdc.source.postgres import connect
from cdc.source.slot import drop_slot
from stack.ports import free_port
from tests.support.commands.deployment import Deployment

LAKE = """
[capture]
reconnect_s = 0.2    # for so long it waits for a server that is not there

[stores.lake]
kind = "delta"
path = "./lake"
"""
VIEW = """
[views.{name}]
store = "lake"
key = ["id"]
sql = "{sql}"
"""


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.extra = LAKE + VIEW.format(name="copy", sql="select id from a")
    deployment.execute("create table a (id int primary key)")
    return deployment


@pytest.fixture
def role(shop: Deployment) -> Iterator[str]:
    """A role that may do nothing but log in."""
    name, owner = f"role_{shop.name}", shop.dsn
    shop.execute(f"create role {name} login")
    yield name
    shop.dsn = owner
    shop.execute(f"drop owned by {name}", f"drop role {name}")


def refusal(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    """The fault of a command that was refused, and its hint, without ``error: `` and ``hint: ``."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    [line] = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    hints = [line.removeprefix("  hint: ") for line in lines if line.startswith("  hint: ")]
    return ". ".join([line, *hints])


def address() -> str:
    return f"127.0.0.1:{free_port(set())}"


def test_a_source_that_is_not_there_is_named(shop: Deployment) -> None:
    shop.init()
    at = address()
    shop.dsn = f"postgresql://app:s3cr3t@{at}/shop"
    for verb in ("init", "capture", "lag", "verify copy"):
        said = refusal(shop.run(*verb.split()))
        assert said.startswith(f"cannot connect to PostgreSQL at app@{at}/shop: Connection refused")
        assert said.endswith("Check that PostgreSQL is running there and listens on that address.")


def test_a_kafka_that_is_not_there_is_named_once(shop: Deployment) -> None:
    shop.bootstrap = address()
    shop.extra += VIEW.format(name="again", sql="select id from a")
    for verb in ("init", "capture", "lag", "verify copy", "apply --available-now"):
        said = refusal(shop.run(*verb.split()))
        assert said.startswith(f"cannot connect to Kafka at {shop.bootstrap}: Connection refused")
        assert said.endswith("Check that Kafka is running, and kafka.bootstrap_servers.")
    with connect(shop.dsn) as conn:
        assert conn.execute("select to_regnamespace('headwater')").fetchone() == (None,)
        assert conn.execute("select count(*) from pg_publication").fetchone() == (0,)


def test_a_missing_table_is_the_only_thing_that_is_said(shop: Deployment) -> None:
    shop.tables = ("public.a", "public.aa")
    found = shop.run("check")
    assert found.returncode == 1
    assert found.stdout.rstrip().endswith("1 error")
    said = refusal(shop.run("init"))
    assert said == "table public.aa does not exist. Did you mean public.a?"


def test_a_view_that_does_not_parse_is_shown_with_the_place(shop: Deployment) -> None:
    shop.extra = LAKE + VIEW.format(name="copy", sql="select id frm a where")
    for verb in ("lag", "verify copy"):
        said = refusal(shop.run(*verb.split()))
        assert said.startswith("views.copy.sql, line 1, column 15: does ")


def test_a_dropped_slot_is_told_by_lag_with_the_way_back(shop: Deployment) -> None:
    shop.init()
    with connect(shop.dsn) as conn:
        drop_slot(conn, f"headwater_{shop.name}")
    assert "no slot, run `headwater init --again`" in shop.run("lag").stdout
    assert "no slot: run `headwater init --again`" in " ".join(shop.run("status").stdout.split())


def test_a_role_that_may_not_replicate_is_named(shop: Deployment, role: str) -> None:
    shop.init()
    shop.execute(f"grant usage on schema headwater to {role}", f"grant select on a to {role}")
    shop.dsn = psycopg.conninfo.make_conninfo(shop.dsn, user=role)
    for verb in ("capture", "verify copy"):
        said = refusal(shop.run(*verb.split()))
        assert said.endswith(f". Run `ALTER ROLE {role} REPLICATION`.")


def test_a_role_that_may_not_select_stops_init_before_anything_is_made(
    shop: Deployment, role: str
) -> None:
    name = shop.dsn.rsplit("/", 1)[1]
    shop.execute(
        f"alter role {role} replication",
        f"grant create on database {name} to {role}",
        f"create publication headwater_{shop.name} for table public.a "
        "with (publish_via_partition_root = true)",
    )
    owner = shop.dsn
    shop.dsn = psycopg.conninfo.make_conninfo(shop.dsn, user=role)
    said = refusal(shop.run("init"))
    assert said.startswith(f"role {role} may not read public.a. ")
    assert f'GRANT SELECT ON "public"."a" TO "{role}"' in said
    with connect(owner) as conn:
        assert conn.execute("select to_regnamespace('headwater')").fetchone() == (None,)


def test_without_java_nothing_is_begun(shop: Deployment, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop.environment = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    for verb in ("apply", "up", "demo", "bench"):
        options = [] if verb == "apply" else ["--home", str(home)]
        said = refusal(shop.run(verb, *options))
        assert said.startswith("no Java was found. Install Java 17 or 21")
    assert not home.exists()
