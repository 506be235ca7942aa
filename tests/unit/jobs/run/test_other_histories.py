"""Histories that a process queues for another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.config import Config, View
from cdc.errors import RetryableError
from jobs.run.views.history_recovery import OtherHistories

NONE = cast(Any, None)


def test_one_that_cannot_be_collected_now_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log = View(store="lake", key=("id",), sql="select id from orders", history="log")
    config = Config.model_construct(views={"kept": log, "other": log}, tables={})
    tries: list[str] = []

    def collect(_self: OtherHistories, _conn: Any, name: str, _view: View) -> None:
        tries.append(name)
        if len(tries) < 3:
            raise RetryableError("the store is away")

    monkeypatch.setattr(OtherHistories, "_collect", collect)
    parts = cast(Any, SimpleNamespace(names=("kept",), reload=lambda: config))
    others = OtherHistories(parts, NONE)
    for _ in range(5):
        others.follow(NONE)
    assert tries == ["other"] * 3
