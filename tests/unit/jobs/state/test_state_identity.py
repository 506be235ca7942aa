"""A state database is told from an older copy of itself, and from one that was lost."""

from __future__ import annotations

import pytest

from cdc.errors import StateError
from jobs.state.server.identity import Offsets, behind, is_lost, refuse_older_copy

STATE: Offsets = {"t": {0: 10, 1: 5}}


def test_one_that_is_as_new_as_views_goes_on() -> None:
    refuse_older_copy(STATE, {}, {})
    refuse_older_copy(STATE, {"t": {0: 10, 1: 4}}, {"t": {0: 10, 1: 0}, "u": {0: 7}})
    assert not is_lost(STATE, {"t": {0: 10}})


def test_an_older_copy_is_refused_with_what_it_lacks() -> None:
    assert behind(STATE, {"t": {0: 12, 1: 1}, "u": {0: 3}}) == 5
    with pytest.raises(StateError, match="older copy: it lacks 2 records that views have applied"):
        refuse_older_copy(STATE, {"t": {0: 12}}, {})


def test_one_that_kafka_has_not_kept_records_for_is_refused() -> None:
    with pytest.raises(StateError, match=r"offset 5 of t-1, where Kafka's oldest record is 6\. "):
        refuse_older_copy(STATE, {"t": {0: 10}}, {"t": {0: 10, 1: 6}})


def test_a_new_one_where_views_were_applied_was_lost() -> None:
    assert is_lost({}, {"t": {0: 3}})
    assert not is_lost({}, {})
    assert not is_lost({}, {"t": {0: 0}})
    refuse_older_copy({}, {"t": {0: 3}}, {"t": {0: 2}})
