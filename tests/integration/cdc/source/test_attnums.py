"""What capture says of columns' attnums: what is certain, also when the catalog is ahead."""

from __future__ import annotations

import json

import pytest

from cdc.kafka.broker import Broker, read_compacted
from cdc.topics import schemas_topic
from tests.support.commands.deployment import Deployment

Attnums = dict[tuple[str, ...], list[int | None]]


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute(
        "create table item (id int primary key, a int, b int)",
        "create table older (gone int, id int primary key, a int)",
        "alter table older drop column gone",
    )
    deployment.init()
    return deployment


def attnums(shop: Deployment, table: str) -> Attnums:
    """Of every version of a table, by the names of its columns."""
    with Broker(shop.bootstrap) as broker:
        records = map(json.loads, read_compacted(broker, schemas_topic(shop.name)).values())
    return {
        tuple(column["name"] for column in one["columns"]): [
            column["attnum"] for column in one["columns"]
        ]
        for one in records
        if one["table"] == table
    }


def test_they_are_those_of_the_catalog(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.execute("insert into older values (1, 1)")
        shop.captured(capture)
        shop.execute(
            "alter table older add column b int",
            "alter table older rename a to c",
            "insert into older values (2, 2, 2)",
        )
        shop.captured(capture)
    assert attnums(shop, "older") == {("id", "a"): [2, 3], ("id", "c", "b"): [2, 3, 4]}


def test_of_all_columns_that_there_ever_were_they_are_certain(shop: Deployment) -> None:
    """The catalog is two versions ahead, and no name is what it was."""
    shop.execute(
        "insert into item values (1, 1, 1)",
        "alter table item rename a to tmp",
        "insert into item values (2, 2, 2)",
        "alter table item rename b to a; alter table item rename tmp to b",
        "insert into item values (3, 3, 3)",
        "alter table item drop column a",
    )
    with shop.running("capture") as capture:
        shop.captured(capture)
    assert attnums(shop, "item") == {
        ("id", "a", "b"): [1, 2, 3],
        ("id", "tmp", "b"): [1, 2, 3],
        ("id", "b", "a"): [1, 2, 3],
    }


def test_a_key_that_is_renamed_behind_it_is_the_key_of_an_event(shop: Deployment) -> None:
    """Of REPLICA IDENTITY FULL, where the message flags no column."""
    shop.execute(
        "alter table item replica identity full",
        "alter table item add c int",
        "insert into item values (1, 1, 1, 1)",
        "alter table item rename id to no",
        "delete from item where no = 1",
    )
    with shop.running("capture") as capture:
        shop.captured(capture)
    keys = [one.key for one in shop.events("item")]
    assert keys == [{"id": 1}, {"no": 1}, {"no": 1}]  # the tombstone last


def test_they_are_followed_from_what_was_told_before(shop: Deployment) -> None:
    """One is dropped, and another takes its name, place and type, while capture is away."""
    with shop.running("capture") as capture:
        shop.execute("alter table older add b int", "insert into older values (1, 1, 1)")
        shop.captured(capture)
    shop.execute(
        "alter table older add c text",
        "insert into older values (2, 2, 2, 'x')",
        "alter table older drop column a; alter table older rename b to a",
        "insert into older values (3, 3, 'x')",
        "alter table older add d int",
        "insert into older values (4, 4, 'x', 4)",
    )
    with shop.running("capture") as capture:
        shop.captured(capture)
    assert attnums(shop, "older") == {
        ("id", "a"): [2, 3],
        ("id", "a", "b"): [2, 3, 4],
        ("id", "a", "b", "c"): [2, 3, 4, 5],
        ("id", "a", "c"): [2, 4, 5],
        ("id", "a", "c", "d"): [2, 4, 5, 6],
    }


def test_others_are_not_guessed_and_never_forgotten(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.execute("alter table older add b int", "insert into older values (1, 1, 1)")
        shop.captured(capture)
    shop.execute(
        "insert into older values (2, 2, 2)",  # a version that was told before
        "alter table older rename a to x; alter table older rename b to y",
        "insert into older values (3, 3, 3)",  # one that was not
        "alter table older drop column x; alter table older rename y to z",
        "alter table older add x int",
        "insert into older values (4, 4, 4)",
    )
    with shop.running("capture") as capture:
        shop.captured(capture)
    assert attnums(shop, "older") == {
        ("id", "a"): [2, 3],
        ("id", "a", "b"): [2, 3, 4],
        ("id", "x", "y"): [None, None, None],
        ("id", "z", "x"): [2, 4, 5],
    }


def test_a_snapshot_says_the_same(shop: Deployment) -> None:
    shop.execute("insert into older values (1, 1)")
    with shop.running("capture") as capture:
        shop.captured(capture)
        done = shop.run("snapshot", "start", "public.older")
        assert done.returncode == 0, done.stderr
    assert attnums(shop, "older") == {("id", "a"): [2, 3]}


def test_a_table_that_is_renamed_is_told(shop: Deployment) -> None:
    """Also one that takes the name of another, and also by a capture that starts then."""
    said = "table_renamed"
    shop.execute("insert into item values (1, 1, 1)", "insert into older values (1, 1)")
    with shop.running("capture") as capture:
        shop.captured(capture)
        assert said not in shop.log("capture")
    shop.execute(
        "alter table item rename to tmp; alter table older rename to item",
        "insert into item values (2, 2)",
    )
    with shop.running("capture") as capture:
        shop.captured(capture)
        (told,) = [line for line in shop.log("capture").splitlines() if said in line]
        assert "public.older" in told
        shop.execute("alter table item rename to third", "insert into third values (3, 3)")
        shop.captured(capture)
        told = [line for line in shop.log("capture").splitlines() if said in line][-1]
        assert "add public.third" in told


def test_other_columns_under_the_same_names_are_told(shop: Deployment) -> None:
    """One ``schema_id``, and who reads events by it cannot tell which columns they have."""
    with shop.running("capture") as capture:
        shop.execute("insert into item values (1, 1, 1)")
        shop.captured(capture)
        assert "columns_replaced" not in shop.log("capture")
        shop.execute(
            "alter table item drop column a",
            "alter table item rename b to a; alter table item add b int",
            "insert into item values (2, 2, 2)",
        )
        shop.captured(capture)
        (told,) = [one for one in shop.log("capture").splitlines() if "columns_replaced" in one]
    assert "public.item" in told
    assert attnums(shop, "item") == {("id", "a", "b"): [1, 3, 4]}
