"""Views that batches pass over, for DDL or for a fault of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.errors import RetryableError, StateError
from jobs.run.builds.builder import Generation
from jobs.run.stream.unfound_keys import without_unfound
from jobs.run.views import generation_registry
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.state.batch.key_marker import UnfoundKeysError

FAULT = StateError("finding the keys of view v: data error 22012")


def generation(id_: int) -> Generation:
    record = SimpleNamespace(id=id_, name=f"v{id_}")
    return cast(Generation, SimpleNamespace(record=record, history=None))


@pytest.fixture
def registry() -> GenerationRegistry:
    @contextmanager
    def changing() -> Iterator[Any]:
        yield None

    parts: Any = SimpleNamespace(config=None)
    return GenerationRegistry(parts, cast(Any, None), cast(Any, None), changing, lambda: None)


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "let go of meanwhile"])
def test_a_batch_goes_on_without_a_view_whose_keys_it_does_not_find(
    registry: GenerationRegistry, is_known: bool
) -> None:
    view, tries, woken = generation(1), iter([UnfoundKeysError(1, FAULT), None]), []
    if is_known:
        registry.known.know(view)

    def apply() -> str:
        if (fault := next(tries)) is not None:
            raise fault
        return "applied"

    assert without_unfound(registry, lambda: woken.append(1), apply) == "applied"
    assert (woken, registry.known.knows(view)) == ([1], False)
    with pytest.raises(UnfoundKeysError, match="data error 22012"):
        registry.known.refuse_altered(view)
    registry.known.know(view)
    assert registry.known.fault(view) is None


def test_what_is_passed_over_while_it_is_made_up_for_is_not_noted_as_whole(
    registry: GenerationRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, noted = generation(1), list[int]()
    monkeypatch.setattr(generation_registry, "note_loaded", lambda _, id_: noted.append(id_))
    monkeypatch.setattr(generation_registry, "make_up", lambda *_: 7)
    registry.known.know(view)
    assert (registry.made_up(cast(Any, None), view), noted) == (7, [1])
    monkeypatch.setattr(generation_registry, "make_up", lambda *_: registry.known.forget(view))
    with pytest.raises(RetryableError, match="view v1 is being replanned after a table change"):
        registry.made_up(cast(Any, None), view)
    assert noted == [1]
