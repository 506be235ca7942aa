"""``headwater check`` of views: against their tables as they are, their stores, and PostgreSQL."""

from __future__ import annotations

import json

import pytest

from cdc.errors import RetryableError
from cdc.source.postgres import connect, plan_fault
from stack.ports import free_port
from tests.support.commands.deployment import Deployment


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute("create table public.a (id int primary key)")
    return deployment


def test_each_view_is_checked_against_its_tables_as_they_are(shop: Deployment) -> None:
    shop.tables = ("public.a", "public.b")
    shop.execute(
        "create type public.kind as enum ('checkup', 'other')",
        "create table public.b (id int primary key, a_id int, name text, kind public.kind)",
    )
    declared = {
        "good": ("id", "select id, id + 1 as next from a"),
        "joined": ("id", "select b.id, a.id as a, b.name from b left join a on a.id = b.a_id"),
        "doubled": ("id", "select a.id, b.name from a join b on b.a_id = a.id"),
        "half": ("id", "select a.id from a join other o on o.id = a.id"),
        "broken": ("id", "select id frm a where"),
        "unknown": ("id", "select id, nope from a"),
        "elsewhere": ("id", "select id from public.other"),
        "keyless": ("next", "select id + 1 as next from a"),
        "labelled": ("id", "select id from b where kind = 'checkup'"),
        "mislabelled": ("id", "select id from b where kind = 'chekup'"),
        "ended": ("id", "select id from a; /* all */"),
        "foreign": ("id", "select id from b where id >= 0 = true; -- as elsewhere"),
    }
    shop.extra = '[stores.lake]\nkind = "delta"\npath = "./lake"\n' + "".join(
        f'[views.{name}]\nstore = "lake"\nkey = ["{key}"]\nsql = "{sql}"\n'
        for name, (key, sql) in declared.items()
    )
    code, found = shop.check()
    assert code == 1
    wrong = {f["check"].removeprefix("view "): f["message"] for f in found["error"]}
    assert set(wrong) == set(declared) - {"good", "joined", "labelled", "ended"}
    assert "public.other, a table that is not captured" in wrong["elsewhere"]
    assert "public.other, a table that is not captured" in wrong["half"]
    assert "(id) is not unique in the view" in wrong["doubled"]
    assert "nope" in wrong["unknown"]
    assert "PostgreSQL rejects its SQL: invalid input value for enum" in wrong["mislabelled"]
    refused = "view foreign: PostgreSQL rejects its SQL: syntax error"
    assert wrong["foreign"].startswith(refused)
    right = {f["check"]: f["message"] for f in found["ok"]}
    assert right["view good"] == "in lake, incremental: id int4, next int4"
    assert right["view joined"] == "in lake, incremental: id int4, a int4, name text"


def test_a_column_that_the_publication_leaves_out_is_said_to_be_unpublished(
    shop: Deployment,
) -> None:
    shop.execute(
        "create table public.wide (id int primary key, secret text, name text)",
        "create table public.made (id int primary key, n int generated always as (id + 1) stored)",
        f"create publication headwater_{shop.name} for table public.a, public.wide (id, name), "
        "public.made with (publish_via_partition_root = true)",
    )
    shop.extra = '[stores.lake]\nkind = "delta"\npath = "./lake"\n' + "".join(
        f'[views.{name}]\nstore = "lake"\nkey = ["id"]\nsql = "{sql}"\n'
        for name, sql in (
            ("alone", "select id, secret from wide"),
            ("named", "select w.id, w.secret from wide w"),
            ("misspelt", "select w.id, w.sekret from wide w"),
            ("computed", "select id, n from made"),
        )
    )
    shop.extra += '[tables."public.made"]\nmirror = false\n'  # a mirror would compute it
    _, found = shop.check()
    wrong = {f["check"].removeprefix("view "): f for f in found["error"]}
    assert set(wrong) == {"alone", "named", "misspelt", "computed"}
    for name in ("alone", "named"):
        assert wrong[name]["message"].endswith("the column public.wide.secret is not published")
        assert wrong[name]["hint"].startswith("Add it to the column list of publication headwater_")
    assert "is not published" not in wrong["misspelt"]["message"]
    said, hint = wrong["computed"]["message"], wrong["computed"]["hint"]
    assert said.endswith("the generated column public.made.n is not published")
    written, _, altered = hint.rstrip(".").partition(", or ")
    assert written == "Write what it computes in the view's SQL"
    with connect(shop.dsn) as conn:
        assert bool(altered) == (conn.info.server_version >= 180000)
    if altered:
        shop.execute(altered)
        assert "view computed" not in {f["check"] for f in shop.check()[1]["error"]}


def test_a_source_that_goes_away_is_no_fault_of_the_sql(shop: Deployment) -> None:
    with connect(shop.dsn) as conn:
        shop.execute(f"select pg_terminate_backend({conn.info.backend_pid})")
        with pytest.raises(RetryableError, match="planning a query"):
            plan_fault(conn, "select 1")


def test_what_a_view_says_of_its_store_is_about_its_columns(
    shop: Deployment,
) -> None:
    unused_port = free_port(set())
    shop.extra = (
        f'[stores.search]\nkind = "opensearch"\nurl = "http://127.0.0.1:{unused_port}"\n'
        f'[stores.cache]\nkind = "redis"\nurl = "redis://127.0.0.1:{unused_port}/0"\n'
        '[views.found]\nstore = "search"\nkey = ["id"]\nsql = "select id from a"\n'
        '[views.found.mapping]\nidd = { type = "keyword" }\n'
        '[views.cached]\nstore = "cache"\nkey = ["id"]\nsql = "select id from a"\n'
        'index_by = ["id", "name"]\n'
        '[stores.lake]\nkind = "delta"\npath = "./lake"\n'
        '[views.laid]\nstore = "lake"\nkey = ["id"]\nsql = "select id from a"\n'
        'partition_by = ["id % 7"]\n'
        '[views.counted]\nstore = "lake"\nkey = ["id"]\nhistory = "log"\n'
        'sql = "select one.id, count(*) as n from a one join a two on two.id > one.id '
        'group by one.id"\n'
        """[views.named]\nstore = "search"\nkey = ["_id"]\nsql = 'select id as "_id" from a'\n"""
        """[views.cased]\nstore = "lake"\nkey = ["id"]\nsql = 'select id, 1 as "ID" from a'\n"""
    )
    shop.extra += (
        '[views.hidden]\nstore = "search"\nkey = ["id"]\nsql = "select id from a"\n'
        "settings = { hidden = true }\n"
    )
    _, found = shop.check()
    wrong = {f["check"]: f["message"] for f in found["error"]}
    assert wrong["view hidden"] == "view hidden: settings: hidden may not be set"
    assert wrong["view found"] == "view found: its mapping names idd"
    assert wrong["view cached"] == "view cached: its index_by names name"
    laid = "view laid: its partition_by names id % 7, which is no column of it"
    assert wrong["view laid"] == laid
    assert wrong["view named"] == "view named: OpenSearch has no fields named '_id'"
    assert wrong["view cased"] == "view cased: Delta takes 'id' and 'ID' for one name"
    assert 'no history = "log" for rows computed from several rows' in wrong["view counted"]


def test_the_status_of_a_deployment_says_of_each_part_how_it_is(shop: Deployment) -> None:
    unused_port = free_port(set())
    view = '[views.found]\nstore = "search"\nkey = ["id"]\nsql = "select id from a"\n'
    shop.extra = (
        f'[stores.search]\nkind = "opensearch"\nurl = "http://127.0.0.1:{unused_port}"\n'
        f'[stores.lake]\nkind = "delta"\npath = "./lake"\n{view}'
    )
    shop.init()
    done = shop.run("status", "--json")
    found = {one["name"]: one for one in json.loads(done.stdout)}
    well = {name for name, one in found.items() if one["well"]}
    assert done.returncode == 1
    assert well == {"source", "kafka", "store lake"}
    assert found["store search"]["state"] == "failed"
    assert "Start opensearch, or correct stores.search" in found["store search"]["said"]
    assert found["capture"]["said"].startswith("not running")
    assert "headwater apply" in found["view found"]["said"], found["view found"]
    shown = shop.run("status").stdout
    assert all(name in shown for name in found)
    shop.extra = ""
    with shop.running("capture"):
        shop.captured()
        done = shop.run("status", "--json")
    assert done.returncode == 0, done.stdout
    assert [one["name"] for one in json.loads(done.stdout)] == ["source", "kafka", "capture"]


def test_the_status_of_a_deployment_whose_source_is_away(shop: Deployment) -> None:
    shop.dsn = f"postgresql://nobody@127.0.0.1:{free_port(set())}/none"
    done = shop.run("status", "--json")
    found = {one["name"]: one["state"] for one in json.loads(done.stdout)}
    assert done.returncode == 1
    assert found == {"source": "failed", "kafka": "running", "capture": "no data"}
