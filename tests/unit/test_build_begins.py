"""A build begins while `headwater apply` is about to make the view's first generation."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap import build
from jobs.generations import Generation, Generations, read_generations, write_generations
from jobs.standing import Asked
from jobs.state import declared, open_state
from jobs.turn import turn
from views.definition import parse_view

VIEW = parse_view("v", "s", ["id"], "select * from t")
WANTED = declared(VIEW)


class Stored:
    """A store that shows nothing."""

    def live(self) -> None:
        """No generation."""

    def close(self) -> None:
        """Nothing to let go of."""


def kit(directory: Path) -> Any:
    def write(found: Generations) -> Generations:
        write_generations(directory, found)
        return found

    return SimpleNamespace(
        directory=directory,
        definition=VIEW,
        broker=SimpleNamespace(
            partitions=lambda topics: dict.fromkeys(topics, 1),
            end_offsets=lambda topics: {topic: {0: 7} for topic in topics},
        ),
        config=SimpleNamespace(apply=SimpleNamespace(retry_s=1.0)),
        name="v",
        topics=lambda _definition: {"public.t": "src.public.t"},
        read=lambda: read_generations(directory),
        write=write,
        stored=lambda _one: Stored(),
        now_s=lambda: 1.0,
        step=lambda _said: None,
    )


def begun(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Generation:
    monkeypatch.setattr(build, "_check", lambda *_: None)
    return build._begun(kit(directory))


def test_the_first_generation_of_a_view_that_nobody_applies_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert begun(monkeypatch, tmp_path).number == 1


@pytest.mark.timeout(60)
def test_what_apply_is_about_to_make_is_not_built_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    holds, pause, asked = threading.Event(), threading.Event(), Asked(tmp_path)

    def apply() -> None:
        with turn(tmp_path, "stream", 5):
            holds.set()
            while not asked.asked():
                pause.wait(0.02)
            open_state(tmp_path, WANTED).checkpoint.mkdir()  # its first batch, before it lets go

    thread = threading.Thread(target=apply)
    thread.start()
    assert holds.wait(30)
    one = begun(monkeypatch, tmp_path)
    thread.join(30)
    assert one.number == 2
    assert read_generations(tmp_path).live == Generation(1, "live", WANTED)
