"""The event trigger that tells of DDL: what a consumer learns, and that DDL never fails for it."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from cdc.kafka.broker import Broker
from cdc.lsn import parse_position
from cdc.topics import ddl_topic, message_topic
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order, fold


@pytest.fixture
def shop(shop: Deployment) -> Deployment:
    done = shop.run("init", "--ddl-events")
    assert done.returncode == 0, done.stderr
    return shop


def told(shop: Deployment) -> list[tuple[tuple[int, int], dict[str, Any]]]:
    """Position and document of each DDL, in order."""
    topic = ddl_topic(shop.name)
    with Broker(shop.bootstrap) as broker:
        if topic not in broker.partitions([topic]):
            return []
        end = broker.end_offsets([topic])[topic][0]
        return [
            (parse_position(dict(r.headers)["position"] or b""), json.loads(r.value or b""))
            for r in broker.read(topic, 0, 0, end)
        ]


def columns(document: dict[str, Any]) -> dict[int, str]:
    return {column["attnum"]: column["name"] for column in document["columns"]}


def test_renames_and_defaults_are_known_as_such_and_stand_before_the_rows(
    shop: Deployment,
) -> None:
    with shop.running("capture") as capture:
        shop.execute(
            "insert into item values (1, 'a')",
            "begin; insert into item values (2, 'b'); alter table item rename name to title;"
            " insert into item values (3, 'c'); end",
            "alter table item add column n int not null default 7",
            "alter table item alter column n type bigint",
            "alter table item drop column title",
            "alter table item rename to thing",
            "drop table thing",
        )
        shop.captured(capture)
    found = told(shop)
    assert [(d["tag"], d["table"]) for _, d in found] == [
        ("BASELINE", "item"),
        *[("ALTER TABLE", "item")] * 4,
        ("ALTER TABLE", "thing"),
        ("DROP TABLE", "thing"),
    ]
    baseline, renamed, added, retyped, dropped, *_ = (document for _, document in found)
    assert len({document["oid"] for _, document in found}) == 1
    assert (columns(baseline), columns(renamed)) == ({1: "id", 2: "name"}, {1: "id", 2: "title"})
    assert (baseline["renamed"], renamed["renamed"]) == (None, 2)
    n = added["columns"][2]
    assert (n["attnum"], n["type"], n["not_null"], n["default"], n["missing"]) == (
        3, "integer", True, "7", "7",
    )  # fmt: skip
    assert retyped["columns"][2]["type"] == "bigint"
    assert columns(dropped) == {1: "id", 3: "n"}
    rows = {e.key["id"]: e.position for e in shop.events("item") if e.key}
    assert rows[2] < found[1][0] < rows[3]
    assert rows[2][0] == rows[3][0]
    assert_exactly_once_in_order(shop.events("item"))


def test_ddl_that_is_rolled_back_is_not_told(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.execute("begin; alter table item add column n int; rollback")
        shop.captured(capture)
    assert [document["tag"] for _, document in told(shop)] == ["BASELINE"]


def test_a_trigger_that_breaks_does_not_break_the_ddl(shop: Deployment) -> None:
    shop.execute("drop function headwater_ddl.said(text, oid, int)")
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        notices: list[str] = []
        conn.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        conn.execute("alter table item add column n int")
    assert any("headwater: a DDL event was not recorded" in notice for notice in notices)
    with shop.running("capture") as capture:
        shop.execute("insert into item values (1, 'a', 5)")
        shop.captured(capture)
    assert fold(shop.events("item"))['{"id": 1}']["n"] == 5


def test_a_role_without_any_right_may_do_ddl_of_its_own(shop: Deployment) -> None:
    role = f"app_{shop.name}"
    shop.execute(
        f"create role {role}; grant create on schema public to {role}",
        f"set role {role}; create table mine (id int primary key); alter table mine add n int",
        "reset role",
        f"drop owned by {role}; drop role {role}",
    )
    with shop.running("capture") as capture:
        shop.captured(capture)
    assert ("DROP OWNED", "mine") in [(d["tag"], d["table"]) for _, d in told(shop)]


def test_a_role_that_may_not_write_messages_may_do_ddl(shop: Deployment) -> None:
    role = f"app_{shop.name}"
    shop.execute(
        f"create role {role}; grant create on schema public to {role}",
        "revoke execute on function pg_logical_emit_message(boolean, text, bytea, boolean)"
        " from public",
        f"set role {role}; create table mine (id int primary key)",
    )
    shop.execute(f"reset role; drop owned by {role}; drop role {role}")
    with shop.running("capture") as capture:
        shop.captured(capture)
    assert ("CREATE TABLE", "mine") in [(d["tag"], d["table"]) for _, d in told(shop)]


def test_without_a_slot_nothing_is_written_and_the_trigger_goes_cleanly(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.captured(capture)  # with the trigger its secret goes
    removed = shop.run("init", "--no-ddl-events")
    assert removed.returncode == 0, removed.stderr
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        left = conn.execute(
            "select evtname from pg_event_trigger union all select proname from pg_proc"
            " where pronamespace = to_regnamespace('headwater_ddl')"
        ).fetchall()
    assert left == []
    with shop.running("capture") as capture:
        shop.execute("alter table item add column n int")
        shop.captured(capture)
    assert [document["tag"] for _, document in told(shop)] == ["BASELINE"]


def test_a_role_that_may_not_install_it_is_told_what_to_do(shop: Deployment) -> None:
    role = f"cdc_{shop.name}"
    shop.execute(
        f"create role {role} login replication password 'pw'",
        f"grant usage, create on schema headwater to {role}",
        f"grant select on all tables in schema headwater, public to {role}",
    )
    own, shop.dsn = shop.dsn, shop.dsn.replace("postgres@", f"{role}:pw@", 1)
    try:
        refused = shop.run("init", "--ddl-events")
    finally:
        shop.dsn = own
        shop.execute(f"drop owned by {role}; drop role {role}")
    assert refused.returncode == 1
    assert "--ddl-events" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_message_that_is_none_of_the_triggers_stays_a_message(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.execute("select pg_logical_emit_message(true, 'headwater.ddl', 'garbage')")
        shop.captured(capture)
    assert len(shop.topic(message_topic(shop.name))) == 1
