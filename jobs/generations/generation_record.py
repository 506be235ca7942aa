"""A view's generations as they are remembered: the steps of each, and which one people read.

    planned ──▶ snapshotting ──▶ snapshotted ──▶ loaded ──▶ live ◀──▶ retired ──▶ dropping

``planned``       the ends of the topics are written down; the snapshot is asked for next
``snapshotting``  a snapshot was begun, its id is written down
``snapshotted``   all its rows are in Kafka, and where they were read is known
``loaded``        the store holds them, apart; the stream from those ends is applied there
``live``          readers see it, ``headwater apply`` keeps it
``retired``       it was live, and can be again
``dropping``      it is being dropped, and of what it held some is gone

``MOVES`` has all that a generation may go on to: one that is filled from mirrors needs no snapshot
of its own, a cancelled snapshot is taken anew, each phase can end in ``dropping``.

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
from typing import Any, Final, Literal, get_args

from cdc.errors import FatalError, ViewError
from cdc.kafka.broker import Offsets
from jobs.generations.declaration import Declaration, declaration
from jobs.generations.view_state import (
    Beginning,
    is_begun,
    read_document,
    view_directory,
    write_document,
)
from jobs.state.server.private_folder import private_folder

Phase = Literal["planned", "snapshotting", "snapshotted", "loaded", "live", "retired", "dropping"]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
MOVES: Final[Mapping[Phase, tuple[Phase, ...]]] = MappingProxyType(
    {
        "planned": ("snapshotting", "loaded", "dropping"),
        "snapshotting": ("snapshotting", "snapshotted", "dropping"),
        "snapshotted": ("loaded", "dropping"),
        "loaded": ("live", "dropping"),
        "live": ("retired", "dropping"),
        "retired": ("live", "dropping"),
        "dropping": ("dropping",),
    }
)
"""What each phase may be followed by."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One of a view. ``snapshot`` is empty when none was taken, or its topics are gone.

    ``topic_ids`` are Kafka's of the topics in ``offsets``.
    ``points`` are the LSNs that rows were read at; ``clean``: each row was published once.
    ``dead_letters`` rows were too large for Kafka, and are missing.
    ``mark`` is the store's way back to a kept one, ``layout`` says how rows were to lie in it when
    it was planned. Times are in seconds since 1970, 0: never.
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
    retired_s: float = 0.0
    layout: str = ""

    @property
    def building(self) -> bool:
        return self.phase in ("planned", "snapshotting", "snapshotted", "loaded")

    @property
    def beginning(self) -> Beginning:
        """Where its stream begins. Only from ``snapshotted`` on."""
        return Beginning(self.offsets, min(self.points), max(self.points), self.topic_ids)


@dataclass(frozen=True, slots=True)
class Generations:
    """All of ``view``. At most one is live and at most one is built at a time."""

    view: str
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
    def retired(self) -> list[Generation]:
        """Those that were live, the last one retired first."""
        found = [one for one in self.of.values() if one.phase == "retired"]
        return sorted(found, key=lambda one: one.retired_s, reverse=True)

    def planned(
        self,
        wanted: Declaration,
        offsets: Offsets,
        now_s: float,
        above: int = 0,
        topic_ids: Mapping[str, str] = MappingProxyType({}),
        layout: str = "",
    ) -> Generations:
        """A new generation begins; its number is above those known here, and ``above``."""
        assert self.building is None, "one at a time"
        number = max(above, max(self.of, default=0)) + 1
        begun = Generation(
            number, "planned", wanted, offsets, dict(topic_ids), created_s=now_s, layout=layout
        )
        return self._with(begun)

    def changed(self, number: int, **fields: Any) -> Generations:
        """One generation with other fields; ``moved`` for its phase."""
        assert "phase" not in fields, "a phase is moved to"
        return self._with(replace(self.of[number], **fields))

    def moved(self, number: int, phase: Phase, **fields: Any) -> Generations:
        """One generation in its next phase, with other fields that belong to it.

        Raises ``FatalError`` for a move that ``MOVES`` does not have.
        """
        one = self.of[number]
        if phase not in MOVES[one.phase]:
            raise FatalError(
                f"view {self.view}: generation {number} is {one.phase} and cannot become {phase}",
                "report this bug in Headwater, with the view's generations.json",
            )
        return self._with(replace(one, phase=phase, **fields))

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
            left = self.moved(live.number, "retired", retired_s=now_s)
        shown = left.moved(number, "live", live_s=now_s)
        return replace(shown, switching=None)

    def withdrawn(self) -> Generations:
        """The store was not told after all."""
        return replace(self, switching=None)

    def without(self, number: int) -> Generations:
        """One generation is gone."""
        return replace(self, of={n: one for n, one in self.of.items() if n != number})

    def expired(self, keep: int, keep_s: float, now_s: float) -> list[Generation]:
        """Those retired beyond ``keep`` of them, or longer than ``keep_s``, or half dropped."""
        half = [one for one in self.of.values() if one.phase == "dropping"]
        old = [one for one in self.retired if now_s - one.retired_s > keep_s]
        return list({one.number: one for one in [*half, *self.retired[keep:], *old]}.values())

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
            return Generations(directory.name)
        return Generations(directory.name, {1: Generation(1, "live", declaration(first))})
    wrong = ""
    try:
        found = {one["number"]: _generation(one) for one in held["generations"]}
        unknown = [one for one in found.values() if one.phase not in PHASES]
        if not unknown:
            return Generations(directory.name, found, held["switching"])
        wrong = f": generation {unknown[0].number} has the unknown phase {unknown[0].phase!r}"
    except (AttributeError, KeyError, TypeError):
        pass
    raise ViewError(
        f"{directory / 'generations.json'} is not a valid record of generations{wrong}",
        "restore it, or drop the view and create it again",
    )


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
