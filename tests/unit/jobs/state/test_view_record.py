"""The states of a generation whose keys batches collect."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cdc.errors import StateError
from jobs.state.views.view_record import BUILDING, MOVES, PAUSED, check_move, view_records


@pytest.mark.parametrize("before", [*MOVES, "of another version"])
@pytest.mark.parametrize("then", [*MOVES])
def test_a_generation_moves_as_the_table_says_and_no_other_way(before: str, then: str) -> None:
    if then in MOVES.get(before, ()):
        check_move("v", 3, before, then)
        return
    with pytest.raises(StateError, match=f"view v: generation 3 is {before} and cannot .* {then}"):
        check_move("v", 3, before, then)


def test_nothing_is_built_again_under_the_same_number() -> None:
    assert all(BUILDING not in after for after in MOVES.values())
    assert PAUSED in MOVES[BUILDING]


def test_a_state_that_is_not_known_is_told_with_its_generation() -> None:
    class Stored:
        def execute(self, *_: object) -> list[tuple[Any, ...]]:
            return [(1, "v", 3, "select id from t", ["id"], "cache", "left", "", "")]

    with pytest.raises(StateError, match="view v: generation 3 has the unknown state 'left'"):
        view_records(cast("Any", Stored()))
