"""Reading a generation's letters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from cdc.errors import ViewError
from cdc.kafka.broker import Broker, Offsets
from jobs.generations.view_state import ViewState
from jobs.without_mirrors.dead_letters.letter import Letters
from jobs.without_mirrors.dead_letters.topic import LetterBox
from tests.unit.jobs.without_mirrors.replay.test_replay import config_of


class TopicThatComesBack(Broker):
    """It has its topic but for the first time that somebody asks."""

    asked = 0

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        self.asked += 1
        return dict.fromkeys(topics, 1) if self.asked > 1 else {}

    def end_offsets(self, topics: Sequence[str]) -> Offsets:
        return {topic: {0: 5} for topic in topics}


def test_letters_that_are_not_seen_once_are_not_forgotten(tmp_path: Path) -> None:
    state = ViewState(tmp_path, "g")
    with closing(LetterBox(config_of(tmp_path), "v", state)) as box:
        box._broker = TopicThatComesBack("unused:1")
        assert box.read() == Letters()  # none were written
        box._broker = TopicThatComesBack("unused:1")
        state.remember_letters(5, 1)
        with pytest.raises(
            ViewError, match="no longer holds the dead letters of its 1 parked keys"
        ):
            box.read()
