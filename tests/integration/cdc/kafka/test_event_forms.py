"""``[events]`` on real servers: the preset from rows and WAL to Kafka, and one form for a topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cdc.config import load_config
from cdc.events.payload import payload
from snapshots import snapshot_on_demand
from tests.oracle.cases import TYPES
from tests.support.commands.deployment import Deployment, Event, assert_exactly_once_in_order
from tests.support.events.recorded_forms import (
    DIFFERENCES,
    RECORDINGS,
    SCHEMA_DIFFERENCES,
    Recorded,
    meaning,
)
from tests.support.events.recorded_values import type_info

COLUMNS = [(case["declaration"], case["texts"]) for case in RECORDINGS[0]["cases"]]
PRESET = 'partitions = 2\n[events]\npreset = "debezium"'


def plainly(events: list[Event]) -> list[Event]:
    """Without the schemas."""
    return [
        Event(one.partition, one.offset, one.timestamp_ms, payload(one.key), payload(one.value))
        for one in events
    ]


@pytest.fixture
def every_type(deployment: Deployment) -> Deployment:
    """A column for each recorded case; row ``i`` has text ``i``, NULL where there is none. Rows
    from 100 on come while capture runs."""
    columns = ", ".join(f"v{n} {declaration}" for n, (declaration, _) in enumerate(COLUMNS))
    deployment.execute(TYPES, f"create table item (id int primary key, {columns})")
    deployment.extra = PRESET
    insert(deployment, 0)
    return deployment


def insert(deployment: Deployment, first: int) -> None:
    casts = ", ".join(f"cast(%s::text as {declaration})" for declaration, _ in COLUMNS)
    with psycopg.connect(deployment.dsn, autocommit=True) as conn:
        for row in range(max(len(literals) for _, literals in COLUMNS)):
            texts = [literals[row] if row < len(literals) else None for _, literals in COLUMNS]
            conn.execute(f"insert into item values (%s, {casts})".encode(), [first + row, *texts])


def recorded() -> Iterator[tuple[str, int, Recorded]]:
    """Column, row, and what a connector without settings made of the value."""
    for number, case in enumerate(RECORDINGS[0]["cases"]):
        for row, text in enumerate(case["texts"]):
            seen = case["forms"]["preset"]["stream"][row]
            kind = type_info(case["type"])
            one = Recorded("preset", case["declaration"], kind, case["typmod"], text, seen, seen)
            yield f"v{number}", row, one


def test_the_preset_is_debeziums_output_from_snapshot_and_stream_and_through_a_kill(
    every_type: Deployment,
) -> None:
    every_type.init()
    with every_type.running("capture") as capture:
        insert(every_type, 100)
        every_type.captured(capture)
        every_type.execute("insert into item select 300 + i from generate_series(1, 500) i")
        capture.kill()
    with every_type.running("capture") as capture:
        every_type.execute("delete from item where id > 300", "truncate item")
        every_type.captured(capture)
    events = every_type.events("item")
    assert_exactly_once_in_order(plainly(events))
    assert {json.dumps(one.key and one.key["schema"]) for one in events} == {
        json.dumps(
            {
                "type": "struct",
                "fields": [{"type": "int32", "optional": False, "field": "id"}],
                "optional": False,
                "name": f"{every_type.name}.public.item.Key",
            }
        )
    }
    ops = [(one.value or {}).get("op") for one in plainly(events)]
    assert ops.count("d") == ops.count(None) == 500
    assert ops.count("t") == 0
    rows = {
        one.value["payload"]["after"]["id"]: one.value["payload"]["after"]
        for one in events
        if one.value and one.value["payload"]["after"]
    }
    for column, row, value in recorded():
        for made in (rows[row][column], rows[100 + row][column]):
            _, *ours = DIFFERENCES.get((value.declaration, value.text), ("",))
            expected = [meaning(value, one) for one in (value.stream, *ours)]
            same = made == json.loads(value.stream or "null")  # -0 is 0 once it was parsed
            assert same or meaning(value, json.dumps(made)) in expected, value
    schemas = {json.dumps(one.value["schema"]) for one in events if one.value}
    assert len(schemas) == 1
    assert_columns(json.loads(schemas.pop()))


def assert_columns(schema: dict[str, Any]) -> None:
    before, after = schema["fields"][:2]
    assert before["name"] == after["name"]
    for number, case in enumerate(RECORDINGS[0]["cases"]):
        theirs = case["forms"]["preset"]["schema"]
        if theirs is not None and case["declaration"] not in SCHEMA_DIFFERENCES:
            assert after["fields"][number + 1] == {**theirs, "field": f"v{number}"}


def test_a_topic_keeps_the_form_that_it_began_with(shop: Deployment) -> None:
    shop.execute("insert into item values (1, 'a')")
    shop.extra = PRESET
    shop.init()
    shop.extra = '[events]\npreset = "debezium"\ntime.precision.mode = "connect"\nschemas = true'
    for command in (
        ("capture",), ("init",), ("init", "--again"), ("snapshot", "start", "public.item"),
    ):  # fmt: skip
        done = shop.run(*command)
        assert done.returncode == 1, command
        said = " ".join(done.stderr.split())
        assert "were begun with schemas = true, time.precision.mode = " in said, command
        assert 'time.precision.mode = "connect"' in said, command
        assert "set [events] back" in said.lower(), command
    _, findings = shop.check()
    assert [one for one in findings["error"] if "were begun with" in one["message"]]
    shop.extra = PRESET
    with shop.running("capture") as capture:
        shop.execute("insert into item values (2, 'b')")
        shop.captured(capture)
    assert_exactly_once_in_order(plainly(shop.events("item")))
    assert {event.key and event.key["payload"]["id"] for event in shop.events("item")} == {1, 2}


def test_a_snapshot_that_was_begun_goes_on_in_its_form(shop: Deployment) -> None:
    shop.execute("insert into item values (1, 'a')")
    shop.extra = PRESET
    shop.init()
    begun = load_config(shop.config)
    snapshot_id = snapshot_on_demand.create(begun, ["public.item"])
    shop.extra = ""
    shop.write()
    snapshot_on_demand.run(load_config(shop.config), snapshot_id)
    (topic,) = snapshot_on_demand.topics(begun, snapshot_id).values()
    (event,) = shop.topic(topic)
    (initial,) = shop.events("item")
    assert event.key == initial.key
    assert event.value
    assert initial.value
    assert event.value["schema"] == initial.value["schema"]
    assert event.value["payload"]["after"] == {"id": 1, "name": "a"}


def test_check_says_what_a_truncate_does_to_sinks_and_which_forms_views_read(
    shop: Deployment,
) -> None:
    shop.init()
    _, findings = shop.check()
    (warning,) = [one for one in findings["warning"] if one["check"] == "truncates"]
    assert "loses rows of other partitions" in warning["message"]
    view = '[stores.s]\nkind = "redis"\nurl = "redis://localhost:1"\n[views.v]\nstore = "s"\n'
    view += 'key = ["id"]\nsql = "select id, name from item"\n'
    shop.extra = view
    assert "truncates" in {one["check"] for one in shop.check()[1]["ok"]}
    shop.extra = view + "[events]\nskipped.operations = 't'"
    _, findings = shop.check()
    assert "truncates" not in {one["check"] for of in findings.values() for one in of}
    (error,) = [one for one in findings["error"] if one["check"] == "views"]
    refusal = "views need every change, and [events] skips operations: t"
    assert refusal in error["message"]
    refused = shop.run("apply", "--available-now")
    assert refused.returncode == 1
    assert refusal in " ".join(refused.stderr.split())


def of_keys(deployment: Deployment) -> list[str]:
    """What ``check`` warns of."""
    _, findings = deployment.check()
    return [one["message"] for one in findings["warning"] if one["check"] == "key values"]


def test_a_key_that_its_mode_cannot_hold_is_warned_of_and_stops_init_and_capture(
    deployment: Deployment,
) -> None:
    deployment.execute(
        "create table rate (at numeric primary key, part numeric)",
        "insert into rate values (1, 'NaN'), ('Infinity', 1)",
        "create domain hour as timetz",
        "create domain open_from as hour",
        "create table opening (at open_from primary key)",
        "insert into opening values ('08:00+02')",
    )
    zoned = "public.opening: rows whose key column at differs in its time zone alone share a key"
    (warning,) = of_keys(deployment)
    assert zoned in warning
    deployment.extra = PRESET
    warnings = of_keys(deployment)
    assert any(zoned in one for one in warnings)
    assert any("public.rate: a value of the key column at can stop" in one for one in warnings)
    assert len(warnings) == 2
    refused = deployment.run("init")
    assert refused.returncode == 1
    assert "public.rate: the key column at has a value that a key cannot hold" in refused.stderr
    deployment.execute("delete from rate where at = 'Infinity'")
    assert deployment.run("init", "--again").returncode == 0
    with deployment.running("capture") as capture:
        deployment.execute("insert into rate values (2, 'NaN')", "insert into rate values (3, 1)")
        deployment.captured(capture)
        deployment.execute("insert into rate values ('NaN', 1)", "insert into rate values (4, 1)")
        assert capture.wait(120) == 1
    log = deployment.log("capture")
    assert "the key column at has a value that a key cannot hold" in log
    assert log.count("value_became_null") == 1
    assert len(deployment.events("rate")) == 3
