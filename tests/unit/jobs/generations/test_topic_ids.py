"""A view goes on in the topics that it began with, and in no others of their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.errors import ViewError
from jobs.generations.declaration import declared
from jobs.generations.topic_ids import refuse_recreated
from jobs.generations.view_state import Beginning, open_state
from views.parse.definition import parse_view

VIEW = parse_view("v", "s", ["id"], "select id from t")


def test_a_topic_that_was_recreated_is_refused_and_a_new_generation_takes_it(
    tmp_path: Path,
) -> None:
    state = open_state(tmp_path / "v", declared(VIEW))
    refuse_recreated(state, "v", {"t": "first"})
    refuse_recreated(state, "v", {"t": "first", "u": "joined"})
    refuse_recreated(state, "v", {})  # of brokers that tell none
    for _ in range(2):
        with pytest.raises(ViewError, match=r"topic t was recreated.*view rebuild v"):
            refuse_recreated(state, "v", {"t": "second", "u": "joined"})
    other = open_state(tmp_path / "2", declared(VIEW))
    refuse_recreated(other, "v", {"t": "second"})


def test_of_a_view_that_was_filled_the_topics_are_those_from_before_its_snapshot(
    tmp_path: Path,
) -> None:
    beginning = Beginning({"t": {0: 5}}, 1, 1, {"t": "first"})
    state = open_state(tmp_path / "v", declared(VIEW), beginning)
    with pytest.raises(ViewError, match="topic t was recreated"):
        refuse_recreated(state, "v", {"t": "second"})
    again = open_state(tmp_path / "v", declared(VIEW))
    assert again.beginning() == beginning
    refuse_recreated(again, "v", {"t": "first"})
