"""Whose a topic of emitted events is, where a database has several sources."""

from __future__ import annotations

import pytest

from cdc.capture import other_sources
from cdc.capture.other_sources import OtherSources
from cdc.errors import HeadwaterError, RetryableError, SourceError


def test_who_publishes_is_asked_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, now, known = [0], [10.0], {"mails": "other"}

    def topics(dsn: str, source: str) -> dict[str, str]:
        assert (dsn, source) == ("dbname=x", "shop")
        asked[0] += 1
        return dict(known)

    monkeypatch.setattr(other_sources, "topics_of_others", topics)
    others = OtherSources("dbname=x", "shop", lambda: now[0])
    assert [others.publish("mails"), others.publish("nobodys"), others.publish("mails")] == [
        True, False, True,
    ]  # fmt: skip
    assert asked == [1]
    known["nobodys"] = "third"
    now[0] += 1
    assert others.publish("nobodys")
    assert asked == [2]


@pytest.mark.parametrize("error", [RetryableError, SourceError])
def test_a_source_that_cannot_be_asked_knows_of_no_other_one(
    error: type[HeadwaterError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No connection is left, or the role may not read the table: capture goes on."""

    def refused(_dsn: str, _source: str) -> dict[str, str]:
        raise error("no answer", "wait")

    monkeypatch.setattr(other_sources, "topics_of_others", refused)
    assert not OtherSources("dbname=x", "shop", lambda: 10.0).publish("mails")
