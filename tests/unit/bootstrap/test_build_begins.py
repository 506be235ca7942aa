"""A build begins while `headwater apply` is about to make the view's first generation."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bootstrap import build
from bootstrap.build_parts import Kit
from cdc.config import Config
from jobs.generations.declaration import declared
from jobs.generations.generation_record import Generation
from jobs.generations.live_generation import Asked
from jobs.generations.view_locks import turn
from jobs.generations.view_state import open_state


class Stored:
    """A store that shows nothing."""

    def live(self) -> None:
        """No generation."""

    def close(self) -> None:
        """Nothing to let go of."""


class WithoutAStore(Kit):
    """A build's own kit, but for the store."""

    def stored(self, one: Generation) -> Any:
        del one
        return Stored()


class Topics:
    """Kafka, of which a build asks how far each topic is."""

    def partitions(self, topics: list[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 1)

    def topic_ids(self, topics: list[str]) -> dict[str, str]:
        return dict.fromkeys(topics, "id")

    def end_offsets(self, topics: list[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: 7} for topic in topics}


def kit(state: Path) -> Kit:
    config = Config.model_validate(
        {
            "source": {"name": "src", "dsn": "postgresql://u@h/d", "tables": ["public.t"]},
            "kafka": {"bootstrap_servers": "localhost:9092"},
            "stores": {"s": {"kind": "redis", "url": "redis://localhost"}},
            "apply": {"state": str(state)},
            "views": {"v": {"store": "s", "key": ["id"], "sql": "select * from t"}},
        }
    )
    stopping, nothing = threading.Event(), cast(Any, None)
    return WithoutAStore(
        config,
        "v",
        spark=None,
        broker=cast(Any, Topics()),
        snapshots=nothing,
        stopping=stopping,
        step=lambda _said: None,
        now_s=lambda: 1.0,
        present=lambda tables: tables,
    )


def begun(monkeypatch: pytest.MonkeyPatch, kit: Kit) -> Generation:
    monkeypatch.setattr(build, "_check", lambda *_: None)
    return build._begun(kit)


def test_the_first_generation_of_a_view_that_nobody_applies_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert begun(monkeypatch, kit(tmp_path)).number == 1


@pytest.mark.timeout(60)
def test_what_apply_is_about_to_make_is_not_built_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    view = kit(tmp_path)
    holds, pause, asked = threading.Event(), threading.Event(), Asked(view.directory)

    def apply() -> None:
        with turn(view.directory, "stream", 5):
            holds.set()
            while not asked.asked():
                pause.wait(0.02)
            first = open_state(view.directory, wanted)
            first.checkpoint.mkdir()  # its first batch, before it lets go

    wanted = declared(view.definition)
    thread = threading.Thread(target=apply)
    thread.start()
    assert holds.wait(30)
    one = begun(monkeypatch, view)
    thread.join(30)
    assert one.number == 2
    assert view.read().live == Generation(1, "live", wanted)


def test_a_build_whose_rows_were_to_lie_otherwise_is_begun_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = kit(tmp_path)
    number = begun(monkeypatch, first).number
    assert begun(monkeypatch, first).number == number, "it goes on"
    view = first.config.views["v"].model_copy(update={"key_template": "t:{id}"})
    other = replace(first, config=first.config.model_copy(update={"views": {"v": view}}))
    removed: list[int] = []

    def remove(given: Kit, generation: int) -> None:
        removed.append(generation)
        given.write(given.read().without(generation))

    monkeypatch.setattr(build, "remove", remove)
    begun(monkeypatch, other)
    assert removed == [number]
