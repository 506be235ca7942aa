"""A view's query that is stopped while a batch runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from cdc.config import Config
from cdc.kafka.broker import Broker
from jobs.generations.view_state import ViewState
from jobs.without_mirrors.query import ViewQuery
from tests.support.waiting import wait_until
from views.parse.definition import parse_view

CONFIG = Config.model_validate(
    {
        "source": {"name": "s", "dsn": "dbname=unused", "tables": ["public.t"]},
        "kafka": {"bootstrap_servers": "127.0.0.1:1"},
        "stores": {"cache": {"kind": "redis", "url": "redis://127.0.0.1:1/0"}},
        "views": {"v": {"store": "cache", "key": ["id"], "sql": "select * from t"}},
    }
)


class Stream:
    """A stream that is told to end while its batch runs."""

    isActive = True  # noqa: N815

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


class Blocked(ViewQuery):
    """Its batch waits for a store."""

    def __init__(self, state: Path) -> None:
        none = cast(Any, None)
        view = parse_view("v", "cache", ["id"], "select * from t")
        broker = Broker("127.0.0.1:1")  # to be let go of
        super().__init__(none, CONFIG, view, ViewState(state, "g"), none, broker, lambda _: None)
        self._query = cast(Any, Stream())
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.batch = threading.Thread(target=self._batch, args=(none, 0))
        self.batch.start()
        assert self.begun.wait(60)

    def _run(self, *_: object) -> None:
        self.begun.set()
        assert self.go_on.wait(60)


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Blocked:
    monkeypatch.setattr("jobs.without_mirrors.query._DRAIN_S", 0.1)
    monkeypatch.setattr("jobs.without_mirrors.query._COMMIT_S", 0.1)
    return Blocked(tmp_path)


def test_who_does_not_hurry_has_it_when_its_batch_has_ended(query: Blocked) -> None:
    hurries, asked = threading.Event(), threading.Event()

    def is_hurried() -> bool:
        asked.set()
        return hurries.is_set()

    ended = threading.Thread(target=query.stop, args=(is_hurried,))
    ended.start()
    ended.join(1)  # ten times as long as a hurried one waits
    assert asked.is_set()
    assert ended.is_alive()
    query.go_on.set()
    wait_until(lambda: not ended.is_alive(), "the query to be stopped")
    query.batch.join(60)


def test_who_hurries_does_not_wait_for_it(query: Blocked) -> None:
    query.stop()
    assert query.batch.is_alive()
    query.go_on.set()
    query.batch.join(60)
