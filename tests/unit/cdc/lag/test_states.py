"""The states of capture and views: exactly one holds, and what is not known is never good."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.lag.states import FRESH_S, GOOD, RULES, STALLED_S, Evidence, State, state_of

WELL = Evidence(
    measured=True, blocked=False, source_known=True, behind=0, lag_s=0.0, stuck_s=0.0, gain=None
)
LATE = replace(WELL, behind=9, lag_s=FRESH_S + 1)


@pytest.mark.parametrize(
    ("evidence", "state"),
    [
        (WELL, State.IDLE),
        (replace(WELL, behind=1, lag_s=0.2), State.FRESH),
        (replace(WELL, behind=1, lag_s=FRESH_S), State.FRESH),
        (replace(WELL, lag_s=0.5), State.FRESH),
        (replace(LATE, gain=0.1), State.CATCHING_UP),
        (LATE, State.CATCHING_UP),
        (replace(LATE, gain=0.0), State.FALLING_BACK),
        (replace(LATE, gain=-3.0), State.FALLING_BACK),
        (replace(LATE, gain=-3.0, stuck_s=STALLED_S + 1), State.STALLED),
        (replace(LATE, gain=0.0, stuck_s=STALLED_S), State.FALLING_BACK),
        (replace(WELL, source_known=False), State.SOURCE_UNKNOWN),
        (replace(LATE, source_known=False), State.SOURCE_UNKNOWN),
        (replace(LATE, source_known=False, stuck_s=STALLED_S + 1), State.STALLED),
        (replace(WELL, measured=False), State.NO_DATA),
        (replace(LATE, measured=False, stuck_s=STALLED_S + 1), State.NO_DATA),
        (replace(WELL, blocked=True), State.BLOCKED),
        (replace(LATE, blocked=True, stuck_s=STALLED_S + 1, measured=False), State.BLOCKED),
    ],
)
def test_each_state_has_its_evidence(evidence: Evidence, state: State) -> None:
    assert state_of(evidence) is state


def test_every_combination_has_exactly_one_state_and_each_state_is_reached() -> None:
    seconds = [0.0, 0.1, FRESH_S, FRESH_S + 0.1, STALLED_S, STALLED_S + 0.1]
    reached = {
        state_of(Evidence(measured, blocked, known, behind, lag_s, stuck_s, gain))
        for measured, blocked, known in product([True, False], repeat=3)
        for behind in (0, 1)
        for lag_s in seconds
        for stuck_s in seconds
        for gain in (None, -1.0, 0.0, 1.0)
    }
    assert reached == set(State)
    assert [state for state, _ in RULES].count(State.IDLE) == 1
    assert {state for state, _ in RULES} == set(State), "each state has one rule"
    assert len(RULES) == len(State)


@given(
    st.builds(
        Evidence,
        measured=st.booleans(),
        blocked=st.booleans(),
        source_known=st.booleans(),
        behind=st.integers(0, 10**12),
        lag_s=st.floats(0, 1e9),
        stuck_s=st.floats(0, 1e9),
        gain=st.none() | st.floats(-1e9, 1e9),
    )
)
def test_what_is_unknown_blocked_or_late_is_never_good(evidence: Evidence) -> None:
    state = state_of(evidence)
    if state in GOOD:
        assert evidence.measured
        assert evidence.source_known
        assert not evidence.blocked
        assert evidence.lag_s <= FRESH_S
        assert evidence.stuck_s <= STALLED_S
    if state is State.IDLE:
        assert (evidence.behind, evidence.lag_s) == (0, 0)
