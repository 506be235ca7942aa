"""How far views are behind, over a log in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cdc.errors import LogError
from cdc.kafka.broker import Offsets
from cdc.lag.view_lags import Moment, view_lags
from tests.support.events.log_in_memory import TABLE, LogInMemory


def test_ten_views_cost_a_look_at_the_topics_that_they_share() -> None:
    log = LogInMemory()
    views = [f"v{number}" for number in range(10)]
    for lsn in (50, 60, 70):
        log.change(lsn)
    for number, view in enumerate(views):
        log.apply(view, number % 2 + 1)
    found, errors = view_lags(log, {view: [TABLE] for view in views}, Moment(100, 90, 0.0))
    assert [(one.view, one.behind_records, one.behind_bytes) for one in found] == [
        (view, 2 - number % 2, 40 - number % 2 * 10) for number, view in enumerate(views)
    ]
    assert not errors
    assert log.turns == 2, "views stand at two offsets"


def test_a_view_that_works_meanwhile_is_never_ahead_of_the_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = LogInMemory()
    log.change(50)
    log.apply("v", 1)
    end_offsets = log.end_offsets

    def meanwhile(topics: Sequence[str]) -> Offsets:
        ends = end_offsets(topics)
        log.change(60)
        log.apply("v", 2)
        return ends

    monkeypatch.setattr(log, "end_offsets", meanwhile)
    (found,), errors = view_lags(log, {"v": [TABLE]}, Moment(100, 90, 0.0))
    assert not errors
    assert (found.committed, found.end, found.behind_records) == (1, 1, 0)


def test_a_topic_that_lacks_or_holds_something_else_hides_no_other_view() -> None:
    log = LogInMemory()
    log.change(50)
    log.records["s.public.odd"] = [b"{}"]
    wanted = {"v": [TABLE], "w": [TABLE, "s.public.gone"], "x": ["s.public.odd"]}
    found, errors = view_lags(log, wanted, Moment(100, 90, 0.0))
    assert [one.view for one in found] == ["v"]
    assert errors.keys() == {"w", "x"}
    assert "no topic s.public.gone" in str(errors["w"])
    assert "s.public.odd-0: the record at offset 0 was not written" in str(errors["x"])


def test_what_kafka_refuses_of_one_view_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogInMemory()
    log.change(50)
    committed = log.committed

    def refused(group: str, topics: Sequence[str]) -> Offsets:
        if group == "headwater.w":
            raise LogError("group headwater.w: authorization failed", "grant it")
        return committed(group, topics)

    monkeypatch.setattr(log, "committed", refused)
    found, errors = view_lags(log, {"v": [TABLE], "w": [TABLE]}, Moment(100, 90, 0.0))
    assert ([one.view for one in found], [*errors]) == (["v"], ["w"])
