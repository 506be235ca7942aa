"""How many views are loaded at once, and what a build goes on with."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.config import View
from cdc.errors import RetryableError
from jobs.generations.declaration import Declaration, layout_of
from jobs.generations.generation_record import Generations, write_generations
from jobs.run.builds import view_build
from jobs.run.builds.view_build import ViewBuild, place_to_load
from jobs.state.views.view_record import LOADED, ViewRecord


def test_a_view_waits_for_a_place_to_load_or_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_build, "_PLACES", threading.BoundedSemaphore(1))
    going, stopping = threading.Event(), threading.Event()
    began = threading.Event()

    def other() -> None:
        with place_to_load(going, "b"):
            began.set()

    with place_to_load(going, "a"):
        waiting = threading.Thread(target=other)
        waiting.start()
        assert not began.wait(0.05)
        stopping.set()
        with pytest.raises(RetryableError, match="view c: stopped"), place_to_load(stopping, "c"):
            raise AssertionError("there is no place")
    waiting.join(60)
    assert began.is_set()
    with pytest.raises(ZeroDivisionError), place_to_load(going, "d"):
        raise ZeroDivisionError
    with place_to_load(going, "e"):
        pass


@pytest.mark.parametrize(
    ("changed", "goes_on"),
    [
        ({}, True),
        ({"change_stream": True}, True),
        ({"mapping": {"id": {"type": "keyword"}}}, False),
        ({"format": "hash"}, False),
        ({"key_template": "item:{id}"}, False),
        ({"index_by": ["id"]}, False),
    ],
)
def test_what_was_loaded_is_gone_on_with_where_its_rows_lie_as_they_are_to_lie_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], goes_on: bool
) -> None:
    settings = {"store": "s", "key": ["id"], "sql": "select id from t"}
    before, now = (View.model_validate({**settings, **more}) for more in ({}, changed))
    declared = Declaration(before.sql, before.key, before.store, "public.t")
    begun = Generations("v").planned(declared, {}, 1.0, layout=layout_of(before))
    write_generations(tmp_path, begun.moved(1, "loaded"))
    record = ViewRecord(7, "v", 1, before.sql, before.key, "s", LOADED)
    monkeypatch.setattr(view_build, "view_records", lambda *_: [record])
    reopened: Any = SimpleNamespace(record=record, feed="a feed")
    host = SimpleNamespace(reopened=lambda *_: reopened)
    parts = SimpleNamespace(directory=lambda _: tmp_path)
    build = ViewBuild(cast(Any, parts), cast(Any, host), "v", now, lambda *_: None)
    assert build._gone_on_with(cast(Any, None)) is (reopened if goes_on else None)


def test_a_setting_that_later_versions_have_leaves_rows_where_they_lie() -> None:
    class Later(View):
        more: bool = False

    settings = {"store": "s", "key": ["id"], "sql": "select id from t", "ttl_s": 5}
    before, now = View.model_validate(settings), Later.model_validate(settings)
    assert layout_of(before) == layout_of(now)
    assert layout_of(now) != layout_of(Later.model_validate({**settings, "more": True}))
