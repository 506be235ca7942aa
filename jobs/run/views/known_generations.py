"""The generations that batches know, by the ids of their records. Use from any thread."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from cdc.errors import HeadwaterError, RetryableError
from jobs.run.builds.builder import Generation


class KnownGenerations:
    """Those whose dirty keys batches collect. One that a batch has passed over is not among them:
    a table of it is another one than it was planned over."""

    def __init__(self) -> None:
        self._of: dict[int, Generation] = {}
        self._faults: dict[int, HeadwaterError] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Generation]:
        with self._lock:
            return iter(list(self._of.values()))

    def know(self, generation: Generation) -> None:
        """It, and no other of its record any more."""
        with self._lock:
            self._of[generation.record.id] = generation
            self._faults.pop(generation.record.id, None)

    def forget(self, generation: Generation) -> Generation:
        """Also another one of its record."""
        with self._lock:
            self._of.pop(generation.record.id, None)
        return generation

    def pass_over(self, id_: int, fault: HeadwaterError) -> None:
        """Batches go on without a generation because of a fault of its own."""
        with self._lock:
            self._of.pop(id_, None)
            self._faults[id_] = fault

    def fault(self, generation: Generation) -> HeadwaterError | None:
        """Why batches go on without it, if the fault is its own."""
        with self._lock:
            return self._faults.get(generation.record.id)

    def reading(self, labels: Collection[str]) -> list[Generation]:
        """Those of views that read one of these tables, ``schema.table``."""
        return [one for one in self if not one.kept.plan.reads.keys().isdisjoint(labels)]

    def current(self, generation: Generation) -> Generation | None:
        """A generation as batches know it now, if they do."""
        with self._lock:
            return self._of.get(generation.record.id)

    def name(self, id_: int) -> str:
        """The name of the view; "" for none that is known."""
        with self._lock:
            generation = self._of.get(id_)
        return generation.record.name if generation else ""

    def knows(self, generation: Generation) -> bool:
        return self.current(generation) is generation

    def refuse_altered(self, generation: Generation) -> None:
        """Raise for one that was passed over its own fault, else ``RetryableError``."""
        if not self.knows(generation):
            if (fault := self.fault(generation)) is not None:
                raise fault
            raise RetryableError(
                f"view {generation.record.name} is being replanned after a table change",
                "try again in a few seconds",
            )

    @contextmanager
    def unaltered(self, generation: Generation) -> Iterator[None]:
        """What fails herein because the generation was passed over is to be tried again."""
        try:
            yield
        except Exception as error:
            try:
                self.refuse_altered(generation)
            except HeadwaterError as altered:
                raise altered from error
            raise
