"""What a look tells while the source is away, or one of the views cannot be measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from cdc.config import Config, parse_config
from cdc.errors import ConfigError, LogError, RetryableError
from cdc.lag.measure import PartitionLag
from cdc.lag.source_session import SourceSession
from cdc.lag.states import State
from headwater.lag import watch
from headwater.lag.verified import Verified, write_verified
from headwater.lag.watch import LagWatch
from tests.unit.cdc.lag.test_report import partition

VIEW = {"store": "cache", "key": ["id"], "sql": "select id from orders"}


def config() -> Config:
    document = {
        "source": {"name": "shop", "dsn": "postgresql://nowhere", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "localhost:1"},
        "stores": {"cache": {"kind": "redis", "url": "redis://localhost:1"}},
        "views": {"v": VIEW, "w": VIEW},
    }
    return parse_config(document, {}, Path("/nowhere"))


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is away, and a Kafka without the topics of view ``w``."""

    def lags(*_: object) -> tuple[list[PartitionLag], dict[str, LogError]]:
        return [partition()], {"w": LogError("topic shop.public.orders does not exist")}

    def away(*_: object) -> None:
        raise RetryableError("PostgreSQL does not answer")

    broker = SimpleNamespace(close=lambda: None, partitions=lambda _: {}, topic_config=lambda _: {})
    monkeypatch.setattr(watch, "Broker", lambda *_: broker)
    monkeypatch.setattr(watch, "ParkedKeys", lambda *_: SimpleNamespace(now=dict))
    facts = SimpleNamespace(topics=lambda _: ["shop.public.orders"], parked=lambda _: 0)
    monkeypatch.setattr(watch, "view_facts", lambda *_: facts)
    alone = {"kind": "not applied", "fault": "no process applies it", "hint": ""}
    monkeypatch.setattr(watch, "faults_of", lambda *_: {"v": alone})
    monkeypatch.setattr(watch, "newest_mark", lambda *_: None)
    monkeypatch.setattr(watch, "view_lags", lags)
    monkeypatch.setattr(SourceSession, "activity", away)


@pytest.mark.usefixtures("servers")
def test_one_view_that_cannot_be_measured_hides_no_other() -> None:
    broken = False

    def read() -> Config:
        if broken:
            raise ConfigError("half written")
        return config()

    looks = LagWatch(read, by_apply=True)
    for broken in (False, True):  # noqa: B007 - `read` sees it
        seen = looks.look()
        assert [(one.view, one.state) for one in seen.report.views] == [("v", State.SOURCE_UNKNOWN)]
        assert {view: str(error) for view, error in seen.unmeasured.items()} == {
            "w": "topic shop.public.orders does not exist"
        }
        assert seen.report.capture.state == State.NO_DATA
    looks.close()


@pytest.mark.usefixtures("servers")
def test_what_checks_found_is_told_while_they_are_switched_on(tmp_path: Path) -> None:
    directory = tmp_path / "shop" / "v"
    directory.mkdir(parents=True)
    write_verified(directory, Verified(1.0, 100, 9, differing=(("1",),)))
    document = config().model_dump(exclude_unset=True) | {"apply": {"state": str(tmp_path)}}
    for verify, told in (({"every": "1d"}, {"v"}), ({}, set())):
        declared = parse_config({**document, "verify": verify}, {}, Path("/nowhere"))
        looks = LagWatch(lambda: declared, by_apply=True)  # noqa: B023 - it is asked here
        assert looks.look().verified.keys() == told
        looks.close()


@pytest.mark.usefixtures("servers")
def test_for_a_command_what_is_away_is_an_error() -> None:
    with pytest.raises(RetryableError, match="does not answer"):
        LagWatch(config).look()
