"""Capture and what befalls its source: a shutdown, types that change while they are streamed."""

from __future__ import annotations

import time
from pathlib import Path

from stack import servers
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order


def test_a_source_that_shuts_down_is_not_held_up_and_nothing_is_lost(
    shop: Deployment, stack_home: Path
) -> None:
    """A WAL sender lets its server go when the client has confirmed the last record of all."""
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item values (0, 'before')")
        shop.captured(capture)
        shop.execute("insert into item select i, 'late' from generate_series(1, 5000) i")
        began = time.monotonic()
        servers.stop(stack_home, ["postgres"])
        took_s = time.monotonic() - began
        servers.start(stack_home, ["postgres"])
        shop.execute("insert into item values (-1, 'after')")
        shop.captured(capture)
    assert took_s < 25  # wal_sender_timeout, after which the server would give up, is 30 s
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert len(events) == 5002


def test_enums_of_one_name_and_labels_added_in_midstream_are_their_text(shop: Deployment) -> None:
    shop.execute(
        "create schema other",
        "create type public.mood as enum ('sad')",
        "create type other.mood as enum ('elsewhere')",
        "create table felt (id int primary key, a public.mood, b other.mood, c public.mood[])",
    )
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "insert into felt values (1, 'sad', 'elsewhere', '{sad}')",
            "alter type public.mood add value 'größer' before 'sad'",
            "insert into felt values (2, 'größer', 'elsewhere', '{größer,NULL}')",
            "alter type other.mood rename value 'elsewhere' to 'here'",
            "insert into felt values (3, 'sad', 'here', null)",
            "alter table felt alter a type text, drop column c",
            "insert into felt values (4, 'any', 'here')",
        )
        shop.captured(capture)
    rows = {e.value["after"]["id"]: e.value["after"] for e in shop.events("felt") if e.value}
    assert rows[1] == {"id": 1, "a": "sad", "b": "elsewhere", "c": ["sad"]}
    assert rows[2] == {"id": 2, "a": "größer", "b": "elsewhere", "c": ["größer", None]}
    assert rows[3] == {"id": 3, "a": "sad", "b": "here", "c": None}
    assert rows[4] == {"id": 4, "a": "any", "b": "here"}
