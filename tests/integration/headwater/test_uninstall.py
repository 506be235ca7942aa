"""The way out: a table that leaves, and a source of which nothing stays behind."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from cdc.errors import SourceError
from cdc.kafka.broker import Broker
from cdc.source.postgres import connect
from cdc.topics import progress_topic, row_alert_group, table_topic, view_group
from headwater.cli.uninstall.plan import refuse_other_owner
from tests.support.commands.deployment import Deployment, fold
from tests.support.waiting import wait_until

BEATS = '[capture]\nheartbeat_s = 0.5\nprogress_ms = 50\nemit_topics = ["mails"]\n'
VIEW = """[stores.lake]
kind = "delta"
path = "lake"
[views.seconds]
store = "lake"
key = ["id"]
sql = "select id from second"
"""


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    """Two tables, both captured."""
    deployment.execute(
        "create table first (id int primary key)", "create table second (id int primary key)"
    )
    deployment.extra = BEATS
    deployment.init()
    return deployment


def published(shop: Deployment) -> set[str]:
    with psycopg.connect(shop.dsn) as conn:
        rows = conn.execute("select tablename from pg_publication_tables").fetchall()
    return {name for (name,) in rows}


def topics(shop: Deployment) -> list[str]:
    with Broker(shop.bootstrap) as broker:
        return broker.topics(f"{shop.name}.")


def test_a_table_leaves_while_capture_runs_and_joins_again(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.execute("insert into second values (1)")
        shop.captured(capture)
        refused = shop.run("table", "remove", "public.second", "--yes")
        assert (refused.returncode, published(shop)) == (2, {"first", "second"})
        assert "source.tables chooses public.second" in refused.stderr

        shop.tables, shop.extra = ("public.first",), BEATS + VIEW
        refused = shop.run("table", "remove", "public.second", "--yes")
        assert refused.returncode == 2
        assert "view seconds reads public.second" in refused.stderr
        shop.extra = BEATS
        _, found = shop.check()
        (fault,) = found["error"]
        assert "publishes public.second, which source.tables does not choose" in fault["message"]
        assert fault["hint"].endswith("`headwater table remove public.second`.")
        asked = shop.run("table", "remove", "public.second")
        assert (asked.returncode, published(shop)) == (2, {"first", "second"})
        assert "Add --yes to run it" in asked.stderr

        done = shop.run("table", "remove", "public.second", "--yes")
        assert done.returncode == 0, done.stderr
        assert "public.second is no longer captured" in done.stdout
        assert published(shop) == {"first"}
        shop.execute("insert into second values (2)", "insert into first values (1)")
        shop.captured(capture)
        held = [event.value["after"]["id"] for event in shop.events("second") if event.value]
        assert held == [1]
        assert shop.check()[0] == 0
        gone = shop.run("table", "remove", "public.second", "--yes")
        assert (gone.returncode, "Choose a captured table: public.first" in gone.stderr) == (
            1,
            True,
        )

        shop.tables = ("public.*",)
        back = shop.run("table", "add", "public.second")
        assert back.returncode == 0, back.stderr
        shop.execute("insert into second values (3)")
        shop.captured(capture)
        assert sorted(row["id"] for row in fold(shop.events("second")).values()) == [1, 2, 3]
    with shop.running("capture") as capture:
        shop.captured(capture)


def test_nothing_of_a_source_stays(shop: Deployment) -> None:
    shop.extra = BEATS + VIEW
    with shop.running("capture") as capture:
        shop.execute("select headwater.emit('mails', 'k', 'hello')")
        shop.captured(capture)
        running = shop.run("uninstall", "--yes")
        assert running.returncode == 1
        assert "Stop `headwater capture`" in running.stderr
    first = table_topic(shop.name, "public", "first")
    with Broker(shop.bootstrap) as broker:
        broker.commit_group(view_group("seconds"), {first: {0: 0}})  # of another source's view
        removed = row_alert_group(shop.name, "removed")  # from the configuration
        broker.commit_group(removed, {first: {0: 0}})
    before = topics(shop)
    assert {first, progress_topic(shop.name), f"{shop.name}.outbox.mails"} <= set(before)

    asked = shop.run("uninstall")
    assert asked.returncode == 2
    for said in ("this is removed:", f"slot headwater_{shop.name}", f"topic {first}", "--yes"):
        assert said in asked.stderr, said
    assert topics(shop) == before

    lesser = f"{shop.name}_lesser"
    shop.execute(f"create role {lesser} login")
    refused = pytest.raises(SourceError, match=r"does not own publication .* DROP PUBLICATION")
    with connect(psycopg.conninfo.make_conninfo(shop.dsn, user=lesser)) as conn, refused:
        refuse_other_owner(conn, f"headwater_{shop.name}")
    shop.execute(f"drop role {lesser}")
    own, shop.settings = shop.dsn, 'slot = "none"\n'
    shop.dsn = psycopg.conninfo.make_conninfo(own, dbname="postgres")
    other = shop.run("uninstall", "--yes")
    assert (other.returncode, topics(shop)) == (1, before), other.stderr
    assert "but source.dsn leads to database postgres of cluster" in other.stderr
    shop.dsn, shop.settings = own, ""

    done = shop.run("uninstall", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert "this is removed:" in done.stderr
    said = json.loads(done.stdout)
    assert set(said["removed"]["topics"]) == set(before)
    groups = said["removed"]["groups"], said["stays"]["groups"]
    assert groups == ([removed], ["headwater.seconds"])
    assert left(shop) == (0, 0, 0, 0)
    wait_until(lambda: topics(shop) == [], "every topic to be gone from a broker's metadata")
    again = shop.run("uninstall")
    assert (again.returncode, "nothing was there" in again.stdout) == (0, True)

    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into first values (9)")
        shop.captured(capture)


def left(shop: Deployment) -> Any:
    """Slots, publications, schemas and event triggers of ours in the source."""
    with psycopg.connect(shop.dsn) as conn:
        return conn.execute(
            "select (select count(*) from pg_replication_slots"
            "        where database = current_database()),"
            " (select count(*) from pg_publication),"
            " (select count(*) from pg_namespace where nspname ^@ 'headwater'),"
            " (select count(*) from pg_event_trigger)"
        ).fetchone()
