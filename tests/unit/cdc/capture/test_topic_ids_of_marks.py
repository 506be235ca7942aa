"""Capture goes on in the topics that its newest mark is of."""

from __future__ import annotations

import pytest

from cdc.capture.reconciliation import check_topic_ids, check_topics
from cdc.errors import LogError
from cdc.events.marks import Mark, decode_mark


def test_a_topic_that_was_recreated_is_refused_unless_it_had_held_nothing() -> None:
    told = {"t": "t1", "empty": "e1"}
    offsets = {"t": {0: 5}, "empty": {0: 0}, "unknown": {0: 7}}
    mark = Mark(100, offsets, "7", 1, "db", "slot", topic_ids=told)
    found = decode_mark(mark.encode(0), "topic")
    assert found.topic_ids == told
    check_topic_ids(found, {"t": "t1", "empty": "e2", "unknown": "u1"})
    with pytest.raises(LogError, match=r"topic t was recreated.*init --again"):
        check_topic_ids(found, {"t": "t2", "empty": "e1"})


def test_more_partitions_are_told_with_what_a_topic_of_rows_needs() -> None:
    mark = Mark(100, {"rows": {0: 5}}, "7", 1, "db", "slot")
    check_topics(mark, {"rows": {0: 6}})
    with pytest.raises(LogError, match=r"topic rows has 2.*if it refuses.*`headwater i"):
        check_topics(mark, {"rows": {0: 5, 1: 0}})
