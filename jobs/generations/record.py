"""A view's generations as they are remembered: the steps of each, and which one people read.

    noted ──▶ reading ──▶ read ──▶ loaded ──▶ live ◀──▶ kept ──▶ (dropped)

``noted``    the ends of the topics are written down; the snapshot is asked for next
``reading``  a snapshot was begun, its id is written down
``read``     all its rows are in Kafka, and where they were read is known
``loaded``   the store holds them, apart; the stream from the noted ends is applied there
``live``     readers see it, ``headwater apply`` keeps it
``leaving``  it is being dropped, and of what it held some is gone
``kept``     it was live, and can be again

Each phase is written when it is reached, whole or not at all, so a build that was killed goes on
with the step it was in. ``switching`` is set from before the store is told until after: whoever
finds it asks the store what became of it. Pure but for ``read_generations`` and
``write_generations``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from cdc.errors import ViewError
from cdc.kafka.broker import Offsets
from jobs.generations.view_state import (
    Beginning,
    Declaration,
    declaration,
    is_begun,
    read_document,
    view_directory,
    write_document,
)
from jobs.state.server.private_folder import private_folder

Phase = Literal["noted", "reading", "read", "loaded", "live", "kept", "leaving"]
BUILDING: tuple[Phase, ...] = ("noted", "reading", "read", "loaded")


@dataclass(frozen=True, slots=True)
class Generation:
    """One of a view. ``snapshot`` is empty when none was taken, or its topics are gone.

    ``topic_ids`` are Kafka's of the topics in ``offsets``.
    ``points`` are the LSNs that rows were read at; ``clean``: each row was published once.
    ``dead_letters`` rows were too large for Kafka, and are missing.
    ``mark`` is the store's way back to a kept one. Times are in seconds since 1970, 0: never.
    """

    number: int
    phase: Phase
    declared: Declaration
    offsets: Offsets = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    snapshot: str = ""
    points: tuple[int, ...] = ()
    clean: bool = True
    rows: int = 0
    dead_letters: int = 0
    mark: str = ""
    created_s: float = 0.0
    live_s: float = 0.0
    left_s: float = 0.0

    @property
    def building(self) -> bool:
        return self.phase in BUILDING

    @property
    def beginning(self) -> Beginning:
        """Where its stream begins. Only from ``read`` on."""
        return Beginning(self.offsets, min(self.points), max(self.points), self.topic_ids)


@dataclass(frozen=True, slots=True)
class Generations:
    """All of a view. At most one is live and at most one is built at a time."""

    of: dict[int, Generation] = field(default_factory=dict)
    switching: int | None = None

    @property
    def live(self) -> Generation | None:
        return next((one for one in self.of.values() if one.phase == "live"), None)

    @property
    def live_number(self) -> int:
        """Of the generation that people read; the first one while there is none."""
        return 1 if self.live is None else self.live.number

    @property
    def building(self) -> Generation | None:
        return next((one for one in self.of.values() if one.building), None)

    @property
    def kept(self) -> list[Generation]:
        """Those that were live, the last one left first."""
        found = [one for one in self.of.values() if one.phase == "kept"]
        return sorted(found, key=lambda one: one.left_s, reverse=True)

    def noted(
        self,
        wanted: Declaration,
        offsets: Offsets,
        now_s: float,
        above: int = 0,
        topic_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> Generations:
        """A new generation begins; its number is above those known here, and ``above``."""
        assert self.building is None, "one at a time"
        number = max(above, max(self.of, default=0)) + 1
        begun = Generation(number, "noted", wanted, offsets, dict(topic_ids), created_s=now_s)
        return self._with(begun)

    def changed(self, number: int, **fields: Any) -> Generations:
        """One generation with other fields."""
        return self._with(replace(self.of[number], **fields))

    def intending(self, number: int, mark: str) -> Generations:
        """The store is about to be told to show ``number``; ``mark`` leads back to the live one."""
        live = self.live
        marked = self if live is None else self.changed(live.number, mark=mark)
        return replace(marked, switching=number)

    def switched(self, now_s: float) -> Generations:
        """The store shows what was intended."""
        assert self.switching is not None
        live, number = self.live, self.switching
        left = self
        if live is not None and live.number != number:
            left = self.changed(live.number, phase="kept", left_s=now_s)
        shown = left.changed(number, phase="live", live_s=now_s)
        return replace(shown, switching=None)

    def withdrawn(self) -> Generations:
        """The store was not told after all."""
        return replace(self, switching=None)

    def without(self, number: int) -> Generations:
        """One generation is gone."""
        return replace(self, of={n: one for n, one in self.of.items() if n != number})

    def expired(self, keep: int, keep_s: float, now_s: float) -> list[Generation]:
        """Those kept beyond ``keep`` of them, or longer than ``keep_s``, or dropped by half."""
        half = [one for one in self.of.values() if one.phase == "leaving"]
        old = [one for one in self.kept if now_s - one.left_s > keep_s]
        return list({one.number: one for one in [*half, *self.kept[keep:], *old]}.values())

    def _with(self, one: Generation) -> Generations:
        return replace(self, of={**self.of, one.number: one})


def settled(found: Generations, shown: Callable[[], int | None], now_s: float) -> Generations:
    """What is left of a switch that was interrupted, by what the store shows."""
    if found.switching is None:
        return found
    return found.switched(now_s) if shown() == found.switching else found.withdrawn()


def read_generations(directory: Path) -> Generations:
    """Of the view whose state is in ``directory``.

    A view that ``headwater apply`` made, from the beginning of its topic, has the first one.
    """
    held = read_document(directory / "generations.json")
    if held is None:
        first = read_document(directory / "view.json")
        if first is None or not is_begun(directory):
            return Generations()
        return Generations({1: Generation(1, "live", declaration(first))})
    try:
        found = [_generation(one) for one in held["generations"]]
        return Generations({one.number: one for one in found}, held["switching"])
    except (KeyError, TypeError):
        raise ViewError(
            f"{directory / 'generations.json'} is not as Headwater writes it",
            "restore it, or drop the view and create it again",
        ) from None


def awaited_snapshots(root: str, source: str) -> dict[str, str]:
    """The snapshots that builds of a source's views have still to load, with the view of each."""
    found = {}
    for directory in sorted(view_directory(root, source, "").glob("*/")):
        one = read_generations(directory).building
        if one is not None and one.snapshot and one.phase != "loaded":
            found[one.snapshot] = directory.name
    return found


def write_generations(directory: Path, generations: Generations) -> None:
    """Whole or not at all."""
    private_folder(directory)
    documents = [
        {**asdict(one), "declared": one.declared.document()} for one in generations.of.values()
    ]
    document: dict[str, object] = {"switching": generations.switching, "generations": documents}
    write_document(directory / "generations.json", document)


def _generation(held: dict[str, Any]) -> Generation:
    offsets = {
        topic: {int(partition): at for partition, at in of_topic.items()}
        for topic, of_topic in held["offsets"].items()
    }
    return Generation(
        **{
            **held,
            "declared": declaration(held["declared"]),
            "offsets": offsets,
            "points": tuple(held["points"]),
        }
    )
