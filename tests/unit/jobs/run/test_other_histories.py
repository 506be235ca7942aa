"""Histories that a process queues for another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.config import Config, View
from cdc.errors import RetryableError, UsageError
from jobs.run.views.history_recovery import OtherHistories, refillable

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


def test_a_mirror_that_a_history_follows_is_not_filled_again_on_demand() -> None:
    """Its changes of that time would be in no batch, and nothing brings them back."""
    log = View(store="lake", key=("id",), sql="select id from orders", history="log")
    lines = "select l.id from lines l join orders o on o.id = l.order_id"
    with_history = Config.model_construct(views={"log": log}, tables={})
    with pytest.raises(UsageError, match=r"view log has history of public\.orders"):
        refillable(with_history, "lines", lines)
    assert refillable(with_history, "alone", "select id from lines") == ["public.lines"]
