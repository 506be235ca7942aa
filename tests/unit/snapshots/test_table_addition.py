"""Tables that join: whose records of an earlier time a truncate has to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.config import parse_config
from cdc.events.marks import Mark
from cdc.source.selection import Table
from snapshots.table_addition import was_captured

HELD, EMPTY = {0: 4, 1: 0}, {0: 0, 1: 0}


@pytest.mark.parametrize(
    ("table", "ends", "routed", "wanted"),
    [
        ("plain", HELD, (), True),
        ("plain", EMPTY, (), False),
        ("item_1", HELD, ("public.item_1",), True),
        ("item_2", HELD, ("public.item_1",), False),
        ("item_1", EMPTY, ("public.item_1",), False),
    ],
)
def test_records_of_others_in_a_shared_topic_are_not_those_of_the_table(
    table: str, ends: dict[int, int], routed: tuple[str, ...], wanted: bool
) -> None:
    route = {"tables": ["public.item_*"], "topic": "{source}.items"}
    config = parse_config(
        {
            "source": {"name": "s", "dsn": "x", "tables": ["public.*"], "routes": [route]},
            "kafka": {"bootstrap_servers": "127.0.0.1:9"},
        },
        {},
        Path("/"),
    )
    topic = config.source.topic("public", table)
    places = {label: {"topic": "s.items", "key_field": "__table"} for label in routed}
    mark = Mark(1, {topic: ends}, "1", 1, "db", "slot", routed=places)
    found = Table(1, "public", table, "r", "p", "d", False)
    assert was_captured(config.source, found, mark, {topic: ends}) is wanted
