"""A view that somebody asks for while its store is away."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from cdc.config import Config
from cdc.errors import RetryableError
from jobs.generations.live_generation import Standing
from jobs.generations.view_locks import turn
from jobs.generations.view_state import ViewState, view_directory
from jobs.without_mirrors.views import ViewRun
from views.parse.definition import parse_view

NONE = cast(Any, None)


class Away:
    """A query whose store does not answer."""

    tries = 0

    def __init__(self, *_: object) -> None:
        Away.tries += 1

    def start(self, *_: object) -> None:
        raise RetryableError("the store is away")

    def stop(self, hurries: object) -> None:
        pass


class Store:
    def close(self) -> None:
        pass


def test_who_asks_for_a_view_does_not_wait_for_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config.model_validate(
        {
            "source": {"name": "s", "dsn": "dbname=unused", "tables": ["public.t"]},
            "kafka": {"bootstrap_servers": "127.0.0.1:1"},
            "stores": {"cache": {"kind": "redis", "url": "redis://127.0.0.1:1/0"}},
            "views": {"v": {"store": "cache", "key": ["id"], "sql": "select * from t"}},
            "apply": {"state": str(tmp_path), "retry_s": 5},
        }
    )
    monkeypatch.setattr("jobs.without_mirrors.views.ViewQuery", Away)
    directory = view_directory(str(tmp_path), "s", "v")
    view = parse_view("v", "cache", ["id"], "select * from t")
    run = ViewRun(NONE, config, "v", threading.Event(), False, cast(Any, Store()))
    with turn(directory, "asked", 0):
        assert run._keep(NONE, Standing(1, view, ViewState(directory, "g")))
    assert Away.tries == 1
