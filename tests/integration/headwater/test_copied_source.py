"""A copy of the source, its schema ``headwater`` with it, behind the configuration of the original:
no command writes among the original's topics, or from them into stores."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql

from cdc.config import load_config
from cdc.errors import LogError
from cdc.kafka.broker import Broker
from jobs.run.process import keep_views
from tests.support.commands.deployment import Deployment

VIEW = """[stores.lake]
kind = "delta"
path = "lake"
[views.items]
store = "lake"
key = ["id"]
sql = "select id from item"
"""


@pytest.fixture
def copied(shop: Deployment, postgres: str, tmp_path: Path) -> Iterator[Deployment]:
    """The original is set up, and has a snapshot on demand, number 2."""
    shop.execute("insert into item values (1, 'a')", "create table late (id int primary key)")
    shop.tables = ("public.item",)
    shop.init()
    assert shop.run("snapshot", "start", "public.item").returncode == 0
    name = shop.dsn.rpartition("/")[2]
    copy = f"{name}_copy"
    with psycopg.connect(postgres, autocommit=True) as conn:
        made = sql.SQL("create database {} template {}")
        conn.execute(made.format(sql.Identifier(copy), sql.Identifier(name)))
    shop.dsn = psycopg.conninfo.make_conninfo(shop.dsn, dbname=copy)
    shop.tables, shop.extra = ("public.item", "public.late"), VIEW
    shop.extra += f'[apply]\nstate = "{tmp_path / "state"}"'
    shop.write()
    yield shop
    with psycopg.connect(postgres, autocommit=True) as conn:
        drop = sql.SQL("drop database {} with (force)")
        conn.execute(drop.format(sql.Identifier(copy)))


def records(shop: Deployment) -> dict[str, dict[int, int]]:
    """Of all topics that begin with the source's name."""
    with Broker(shop.bootstrap) as broker:
        return broker.end_offsets(broker.topics(f"{shop.name}."))


COMMANDS = (
    ("table", "add", "public.late"),
    ("snapshot", "start", "public.item"),
    ("snapshot", "drop", "2"),
    ("snapshot", "resume", "2"),
    ("snapshot", "cancel", "2"),
    ("init", "--again"),
    ("capture",),
    ("verify", "items", "--repair"),
    ("wait", "items"),
    ("wait", "items", "--lsn", "0/1"),
    ("health",),
    ("lag",),
    ("check", "--json"),  # a table would break the text
)
BY_SPARK = (
    ("apply",),
    ("view", "create", "items"),
    ("replay", "items", "--from", "beginning"),
)
"""With ``engine = "delta"``: nothing of it begins."""


def refused(shop: Deployment, command: Sequence[str]) -> None:
    done = shop.run(*command)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1, (command, said)
    assert "Traceback" not in said, command
    assert "another database" in said or "but source.dsn leads to" in said, (command, said)


def test_nothing_is_written_to_topics_of_the_original(copied: Deployment) -> None:
    before = records(copied)
    for command in COMMANDS:
        if command[1:2] == ("resume",):
            copied.execute("update headwater.snapshot set status = 'paused' where id = 2")
        refused(copied, command)
    config = load_config(copied.config)
    with pytest.raises(LogError, match=r"but source\.dsn leads to database .*_copy"):
        keep_views(cast(Any, None), config, [], lambda: config, threading.Event())
    copied.extra += '\nengine = "delta"'
    copied.write()
    for command in BY_SPARK:
        refused(copied, command)
    assert records(copied) == before
    with psycopg.connect(copied.dsn) as conn:
        left = conn.execute("select id, status, error from headwater.snapshot order by id")
        assert [row[:2] for row in left.fetchall()] == [(1, "complete"), (2, "failed")]


def test_topics_that_are_being_filled_by_another_database_are_not_taken(shop: Deployment) -> None:
    """While an initial snapshot is underway there is no mark that would tell whose they are."""
    shop.execute("insert into item values (1, 'a')")
    shop.init()
    with Broker(shop.bootstrap) as broker:
        broker.delete_topics([f"{shop.name}.__progress"])
    shop.execute("drop schema headwater cascade")
    shop.settings = 'slot = "other"\n'
    refused = shop.run("init")
    assert refused.returncode == 1, refused.stderr
    assert f"holds records in {shop.name}.public.item, and no progress mark says" in refused.stderr
