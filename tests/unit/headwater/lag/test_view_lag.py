"""What an application is told of a view's lag: what is not known is never good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.errors import RetryableError, UsageError
from cdc.lag.measure import Lag, PartitionLag
from cdc.lag.report import Assessor, Block, Report
from cdc.lag.states import State
from headwater.lag import view_lag
from headwater.lag.view_lag import ViewLags
from headwater.lag.watch import Seen
from tests.unit.cdc.lag.test_report import lag, partition
from tests.unit.headwater.lag.test_watch import config


def report(*views: PartitionLag, blocks: dict[str, Block] | None = None) -> Report:
    found: Lag = replace(lag(), views=views)
    return Assessor(0).report(found, blocks or {}, {"v": 2})


def test_what_is_not_known_has_no_seconds() -> None:
    (one,) = report(partition(committed=None)).views
    told = view_lag.view_lag(one)
    assert (told.state, told.behind_s, told.fresh) == (State.NO_DATA, None, False)


def test_why_a_view_does_not_follow_is_told() -> None:
    (one,) = report(partition(), blocks={"v": Block("not applied", "nobody applies it")}).views
    told = view_lag.view_lag(one)
    assert (told.state, told.blocked_by, told.parked_keys) == ("blocked", "nobody applies it", 2)


class Looks:
    """What was asked of a watch."""

    def __init__(self, names: list[str], said: list[str]) -> None:
        self._names, self._said = names, said

    def settled(self) -> Seen:
        self._said.append(f"settled {self._names}")
        return self.look()

    def look(self) -> Seen:
        self._said.append("look")
        if "away" in self._said:
            raise RetryableError("Kafka does not answer")
        missing = {"x": UsageError("no view 'x'")} if "x" in self._names else {}
        return Seen(report(partition()), {}, {}, missing)

    def close(self) -> None:
        self._said.append("close")


def test_one_watch_serves_all_questions_and_is_made_anew_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(view_lag, "LagWatch", lambda _, names: Looks(names, said))
    lags = ViewLags(config())
    assert lags.look(["v"]).keys() == {"v"}
    assert lags.look(["v"]).keys() == {"v"}
    assert said == ["settled ['v']", "look", "look"]
    said.append("away")
    with pytest.raises(RetryableError):
        lags.look(["v"])
    assert said[-2:] == ["look", "close"]
    said.clear()
    assert lags.look([]).keys() == {"v"}
    assert said == ["settled ['v', 'w']", "look"]
    with pytest.raises(UsageError, match="no view 'x'"):
        lags.look(["x"])
    assert lags.look(["v"]).keys() == {"v"}, "what was wrong with another view is not of this one"
