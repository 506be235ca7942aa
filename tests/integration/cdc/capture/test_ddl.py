"""DDL in the stream on real servers: every row under the shape it was written with, none lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc.kafka.broker import Broker, read_compacted
from cdc.topics import schemas_topic
from tests.support.commands.deployment import Deployment, Event, assert_exactly_once_in_order, fold


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute(
        "create table item (id int primary key, name text)",
        "create table other (id int primary key)",
    )
    return deployment


def rows(events: list[Event]) -> dict[int, dict[str, Any]]:
    """The last streamed image of each key, by ``id``."""
    return {row["id"]: row for row in fold(events).values()}


BEFORE = "insert into item values (1, 'a')"
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("add column n int", "values (2, 'b', 3)", {"id": 2, "name": "b", "n": 3}),
    ("add column n int default 7", "(id) values (2)", {"id": 2, "name": None, "n": 7}),
    ("drop column name", "values (2)", {"id": 2}),
    ("rename column name to title", "values (2, 'b')", {"id": 2, "title": "b"}),
    ("alter column name type int using length(name)", "values (2, 5)", {"id": 2, "name": 5}),
    ("alter column id type bigint", "values (9007199254740993)", {"id": 9007199254740993}),
    ("drop constraint {}_pkey, add primary key (name)", "values (2, 'b')", {"id": 2}),
    ("replica identity full", "values (2, 'b')", {"id": 2, "name": "b"}),
    ("drop column name, add column name int", "values (2, 5)", {"id": 2, "name": 5}),
)
"""What happens to a table of two columns, a row of after that, and what its event says of it."""


@pytest.mark.parametrize("together", [False, True], ids=["mid-stream", "mid-transaction"])
def test_each_row_has_the_shape_it_was_written_with(shop: Deployment, together: bool) -> None:
    names = [f"item_{number}" for number in range(len(CASES))]
    shop.execute(*(f"create table {name} (id int primary key, name text)" for name in names))
    # Half of the cases with the trigger that tells of DDL: nothing else changes with it.
    done = shop.run("init", *(["--ddl-events"] if together else []))
    assert done.returncode == 0, done.stderr
    with shop.running("capture") as capture:
        for name, (ddl, insert, _) in zip(names, CASES, strict=True):
            statements = [
                f"insert into {name} values (1, 'a')",
                f"alter table {name} {ddl.format(name)}",
                f"insert into {name} {insert}",
            ]
            shop.execute(*(["; ".join(["begin", *statements, "end"])] if together else statements))
        shop.captured(capture)
    with Broker(shop.bootstrap) as broker:
        versions = read_compacted(broker, schemas_topic(shop.name))
    for name, (ddl, _, row) in zip(names, CASES, strict=True):
        events = shop.events(name)
        assert_exactly_once_in_order(events)
        found = rows(events)
        assert found[1] == {"id": 1, "name": "a"}, ddl
        assert found[row["id"]].items() >= row.items(), ddl
        last = max((e for e in events if e.value), key=lambda e: e.position)
        assert last.value is not None
        schema = json.loads(versions[last.value["source"]["schema_id"].encode()])
        assert [column["name"] for column in schema["columns"]] == list(found[row["id"]]), ddl
        key = "name" if "primary key" in ddl else "id"
        assert list(last.key or {}) == [key] == schema["key"], ddl


def test_a_table_dropped_and_made_again_goes_on_in_its_topic(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            BEFORE,
            "begin; insert into item values (2, 'b'); drop table item;"
            " create table item (id int primary key, n int);"
            f" alter publication headwater_{shop.name} add table item;"
            " insert into item values (3, 30); end",
            "insert into item values (4, 40)",
        )
        shop.captured(capture)
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert {i: r for i, r in rows(events).items() if i in (1, 2)} == {
        1: {"id": 1, "name": "a"},
        2: {"id": 2, "name": "b"},
    }
    assert rows(events)[4] == {"id": 4, "n": 40}


@pytest.mark.parametrize(
    ("there", "name", "back"),
    [
        ("alter table item rename to thing", "public.thing", "alter table thing rename to item"),
        (
            "alter table item set schema shelf",
            "shelf.item",
            "alter table shelf.item set schema public",
        ),
    ],
)
def test_a_table_under_another_name_has_another_topic_and_comes_back(
    shop: Deployment, there: str, name: str, back: str
) -> None:
    shop.execute("create schema shelf")
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            BEFORE,
            f"begin; insert into item values (2, 'b'); {there}; insert into {name} values (3, 'c');"
            " end",
            f"insert into {name} values (4, 'd')",
            f"{back}; insert into item values (5, 'e')",
        )
        shop.captured(capture)
    schema, table = name.split(".")
    assert set(rows(shop.events("item"))) == {1, 2, 5}
    assert set(rows(shop.events(table, schema))) == {3, 4}
    for events in (shop.events("item"), shop.events(table, schema)):
        assert_exactly_once_in_order(events)


def test_a_new_label_of_an_enum_is_a_value_like_the_others(shop: Deployment) -> None:
    shop.execute("create type mood as enum ('sad')", "alter table item add column mood mood")
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "insert into item values (1, 'a', 'sad')",
            "alter type mood add value 'glad'",
            "insert into item values (2, 'b', 'glad')",
            "alter type mood rename to humour",
            "insert into item values (3, 'c', 'glad')",
        )
        shop.captured(capture)
    found = rows(shop.events("item"))
    assert [found[i]["mood"] for i in (1, 2, 3)] == ["sad", "glad", "glad"]


@pytest.mark.parametrize(
    "wholesale",
    ["for all tables", pytest.param("for tables in schema public", marks=pytest.mark.exhaustive)],
)
def test_a_table_that_joins_a_wholesale_publication_is_captured_from_its_first_row(
    shop: Deployment, wholesale: str
) -> None:
    shop.init()
    name = f"headwater_{shop.name}"
    options = "with (publish_via_partition_root = true)"
    shop.execute(f"drop publication {name}; create publication {name} {wholesale} {options}")
    with shop.running("capture") as capture:
        shop.execute(
            "begin; insert into item values (1, 'a'); create table fresh (id int primary key);"
            " insert into fresh values (1); end",
            "insert into fresh values (2)",
        )
        shop.captured(capture)
    assert set(rows(shop.events("fresh"))) == {1, 2}
    assert set(rows(shop.events("item"))) == {1}


def test_a_change_of_replica_identity_changes_the_old_images(shop: Deployment) -> None:
    shop.execute(
        "create unique index named on item (name)", "alter table item alter name set not null"
    )
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            BEFORE,
            "update item set name = 'b'",
            "alter table item replica identity full; update item set name = 'c'",
            "alter table item replica identity using index named; update item set name = 'd'",
            "alter table item replica identity default; update item set name = 'e'",
        )
        shop.captured(capture)
    events = sorted((e for e in shop.events("item") if e.value), key=lambda e: e.position)
    said = [(e.value["op"], e.key, e.value["before"]) for e in events if e.value]
    assert said == [
        ("c", {"id": 1}, None),
        ("u", {"id": 1}, None),
        ("u", {"id": 1}, {"id": 1, "name": "b"}),
        ("d", {"name": "c"}, {"id": None, "name": "c"}),
        ("c", {"name": "d"}, None),
        ("u", {"id": 1}, None),
    ]
