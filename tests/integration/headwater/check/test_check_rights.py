"""``headwater check`` of roles: each right that is missing, and those that are enough."""

from __future__ import annotations

import psycopg
import pytest

from cdc.source.postgres import connect
from cdc.source.slot import drop_slot
from tests.support.commands.deployment import Deployment

VIEW_OF_B = """
[stores.lake]
kind = "delta"
path = "{0}/lake"

[views.b]
store = "lake"
key = ["id"]
sql = "select id from b"
"""


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute("create table public.a (id int primary key)")
    return deployment


def only_error(shop: Deployment) -> dict[str, str]:
    code, found = shop.check()
    assert code == 1
    assert len(found["error"]) == 1, found["error"]
    return found["error"][0]


def test_each_missing_privilege_comes_with_the_sql_that_grants_it(shop: Deployment) -> None:
    role = f"role_{shop.name}"
    shop.execute(
        f"create role {role} login",
        "alter table public.a enable row level security",
        "create table public.b (id int primary key)",
        "create table public.c (id int primary key)",
    )
    owner = shop.dsn
    try:
        shop.execute(f"grant select on public.a to {role}")
        shop.dsn = psycopg.conninfo.make_conninfo(owner, user=role)
        shop.extra = VIEW_OF_B.format(shop.home)
        _, found = shop.check()
        hints = " / ".join(f["hint"] for f in found["error"])
        assert f'ALTER ROLE "{role}" REPLICATION' in hints
        assert f'CREATE SCHEMA headwater AUTHORIZATION "{role}"' in hints
        assert f'GRANT SELECT ON "public"."b", "public"."c" TO "{role}"' in hints
        assert f'ALTER ROLE "{role}" BYPASSRLS' in hints
        assert 'CREATE PUBLICATION "headwater_' in hints
        (of_view,) = [f["message"] for f in found["error"] if f["check"] == "view b"]
        assert of_view == "describing view b: permission denied for table b"
        assert len(found["error"]) == 6
        script = shop.run("check", "--sql")
        assert script.returncode == 1
        shop.dsn = owner
        shop.execute(script.stdout)  # as it is printed, by who may
        shop.dsn = psycopg.conninfo.make_conninfo(owner, user=role)
        code, found = shop.check()
        assert (code, found["error"]) == (0, [])
        left = shop.run("check", "--sql").stdout.splitlines()
        assert all(line.startswith("-- ") for line in left), left
    finally:
        shop.dsn = owner
        shop.execute(f"drop owned by {role}", f"drop role {role}")


def test_the_least_privileges_that_are_asked_for_are_enough(shop: Deployment) -> None:
    role = f"role_{shop.name}"
    owner = shop.dsn
    shop.execute(
        f"create role {role} login replication",
        f"create schema headwater authorization {role}",
        f"grant select on public.a to {role}",
        f"create publication headwater_{shop.name} for table public.a "
        "with (publish_via_partition_root = true)",
    )
    try:
        shop.dsn = psycopg.conninfo.make_conninfo(owner, user=role)
        code, found = shop.check()
        assert (code, found["error"]) == (0, [])
        shop.init()
        with psycopg.connect(owner, autocommit=True) as conn:  # a table that is added later
            conn.execute("create table public.b (id int primary key)")
            conn.execute(f"grant select on public.b to {role}".encode())
        told = only_error(shop)
        assert "chooses public.b, which" in told["message"]
        who = "Let a superuser, or a role that owns both the publication and the tables, run: ALTER"
        assert told["hint"].startswith(who)
        assert "headwater init --print-sql" in told["hint"]
        assert told["hint"].endswith("; then run `headwater table add public.b`.")
        refused = shop.run("table", "add", "public.b")
        assert who in " ".join(refused.stderr.split())
    finally:
        shop.dsn = owner
        with connect(owner) as conn:
            drop_slot(conn, f"headwater_{shop.name}")
        shop.execute(f"drop owned by {role}", f"drop role {role}")


def test_a_database_that_views_go_to_needs_rights_and_is_not_captured_again(
    shop: Deployment, store_database: str
) -> None:
    role = f"store_{shop.name}"
    shop.execute(f"create role {role} login")
    poor = psycopg.conninfo.make_conninfo(store_database, user=role)
    shop.tables = ("public.*",)
    declared = {
        "good": (store_database, "views"),
        "poor": (poor, "public"),
        "own": (shop.dsn, "public"),
        "apart": (shop.dsn, "views"),
        "none": ("host=a b", "public"),
        "away": (psycopg.conninfo.make_conninfo(store_database, dbname="nosuch"), "views"),
        "nobody": (psycopg.conninfo.make_conninfo(store_database, user="nosuch"), "views"),
    }
    shop.extra = "".join(
        f'[stores.{name}]\nkind = "postgres"\ndsn = "{dsn}"\ntarget_schema = "{schema}"\n'
        f'[views.{name}]\nstore = "{name}"\nkey = ["id"]\nsql = "select id from a"\n'
        for name, (dsn, schema) in declared.items()
    )
    try:
        _, found = shop.check()
    finally:
        shop.execute(f"drop role {role}")
    wrong = {f["check"]: f["message"] for f in found["error"]}
    assert set(wrong) == {f"store {name}" for name in ("poor", "own", "none", "away", "nobody")}
    ways = {f["check"]: f["hint"] for f in found["error"]}
    grant = f'Run there, as a superuser: GRANT USAGE, CREATE ON SCHEMA "public" TO "{role}".'
    create = "Run `CREATE ROLE nosuch LOGIN`, or correct stores.nobody.dsn's user."
    assert (ways["store poor"], ways["store nobody"]) == (grant, create)
    assert ways["store away"] == "Correct the database of stores.away.dsn, or create it."
    assert f"role {role} lacks USAGE or CREATE on schema public" in wrong["store poor"]
    assert "table public.own@1 of view own would be captured" in wrong["store own"]
    assert "is not a connection string" in wrong["store none"]
