"""Up to which moment everything that was committed is known to be in Kafka."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cdc.lag.source_horizon import Look, SourceHorizon


def test_before_a_look_is_covered_the_heartbeat_says_it() -> None:
    horizon = SourceHorizon()
    assert horizon.complete_until_s(50, 7.0) == 7.0
    horizon.add(Look(10.0, 100, "a"), 50)
    assert horizon.complete_until_s(50, 7.0) == 7.0
    assert horizon.complete_until_s(50, None) is None
    assert horizon.complete_until_s(None, None) is None


def test_a_covered_look_says_it_as_long_as_nothing_is_written() -> None:
    horizon = SourceHorizon()
    horizon.add(Look(10.0, 100, "a"), 100)
    assert horizon.complete_until_s(100, 7.0) == 10.0
    horizon.add(Look(11.0, 140, "a"), 100)
    assert horizon.complete_until_s(100, 7.0) == 11.0, "WAL without a transaction"
    horizon.add(Look(12.0, 180, "b"), 100)
    horizon.add(Look(13.0, 180, "b"), 100)
    assert horizon.complete_until_s(100, 7.0) == 11.0, "somebody wrote between 11 and 12"
    assert horizon.complete_until_s(100, 12.5) == 12.5, "a heartbeat later than that"
    horizon.add(Look(14.0, 180, "b"), 180)
    assert horizon.complete_until_s(180, 7.0) == 14.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60))
def test_no_commit_that_kafka_lacks_is_older_than_said(steps: list[tuple[int, int]]) -> None:
    """Each second some transactions commit, and capture publishes some of what there is."""
    horizon, commits, published = SourceHorizon(), list[float](), 0
    for second, (written, read) in enumerate(steps):
        commits += [second - 0.5] * written  # commit number n has the LSN n + 1
        wal_end = len(commits)
        published = min(wal_end, published + read)
        horizon.add(Look(float(second), wal_end, str(wal_end)), published)
        until_s = horizon.complete_until_s(published, None)
        lacking = commits[published:]
        if until_s is not None:
            assert not lacking or until_s <= lacking[0]
            assert lacking or until_s == second, "nothing is missing: until now"
            assert not lacking or lacking[0] - until_s <= 1, "at most one look too high"
