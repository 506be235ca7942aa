"""What a view keeps on disk between runs: Spark's checkpoints, its generations, its declaration.

<apply.state>/<source>/<view>/generations.json   which there are, and which one people read
<apply.state>/<source>/<view>/stopped.json       why its stream ended, after a fault
<apply.state>/<source>/<view>/view.json          of the first generation: what was declared, the
                                                 id of its checkpoint, what it calls columns,
                                                 the newest TRUNCATE
<apply.state>/<source>/<view>/checkpoint/        Spark's own
<apply.state>/<source>/<view>/mirrors/           of the tables of a view of several rows
<apply.state>/<source>/<view>/<n>/...            the same three of generation n
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cdc.errors import ViewError
from cdc.kafka.broker import Offsets
from cdc.lsn import Position
from jobs.generations.declaration import Declaration, declaration, differing
from jobs.spark.checkpoint import batch_offsets
from jobs.state.server.private_folder import private_folder
from views.parse.definition import ViewDefinition
from views.spark.generation_names import Naming

CHECKPOINT: Final = "checkpoint"
"""Spark's own folder below a generation's."""


class Beginning(NamedTuple):
    """Where the stream of a generation that was filled from a snapshot begins.

    ``offsets`` are the ends of the topics from before it. ``lsn`` is where it was read first:
    what was committed below is in the rows. ``upto`` is where it was read last: what was committed
    in between is in the rows but for deletes. ``topic_ids`` are Kafka's of these topics.
    """

    offsets: Offsets
    lsn: int
    upto: int
    topic_ids: Mapping[str, str] = MappingProxyType({})


class Replay(NamedTuple):
    """The newest replay of a generation. What stands below ``until`` was applied once, before it.

    ``place`` is what was asked for, ``asked_s`` when, in seconds since 1970.
    """

    place: str
    starts: Offsets
    until: Offsets
    asked_s: float

    def goes_on(self, at: Offsets) -> bool:
        """Whether a stream that is at these offsets is in it."""
        return any(
            at.get(topic, {}).get(partition, 0) < end
            for topic, ends in self.until.items()
            for partition, end in ends.items()
        )


@dataclass(frozen=True, slots=True)
class ViewState:
    """``generation`` is new with every new checkpoint: batch numbers then start again at 0."""

    directory: Path
    generation: str

    @property
    def checkpoint(self) -> Path:
        return self.directory / CHECKPOINT

    @property
    def mirrors(self) -> Path:
        return self.directory / "mirrors"

    @property
    def file(self) -> Path:
        return self.directory / "view.json"

    def beginning(self) -> Beginning | None:
        """None: at the beginning of the topic."""
        held = (read_document(self.file) or {}).get("beginning")
        if held is None:
            return None
        ids = held.get("topic_ids", {})
        return Beginning(_offsets(held["offsets"]), held["lsn"], held["upto"], ids)

    def batch_begin(self, number: int) -> Offsets:
        """Where a batch begins, as far as the checkpoint knows."""
        if number:
            return batch_offsets(self.checkpoint, number - 1)
        beginning = self.beginning()
        return {} if beginning is None else beginning.offsets

    def lost(self) -> bool:
        """Whether the store was found without what this generation had put there."""
        return bool((read_document(self.file) or {}).get("lost"))

    def remember_lost(self) -> None:
        """Keep it: the place in the store is there again, and empty."""
        write_document(self.file, {**(read_document(self.file) or {}), "lost": True})

    def refuse_lost(self, view: ViewDefinition, created: bool) -> None:
        """A store that was ``created`` just now misses what was applied, which does not come again:
        raises ``ViewError``, also at each later start."""
        if created:
            self.remember_lost()
        if self.lost():
            raise lost_error(view.name, view.store)

    def namings(self) -> dict[str, Naming]:
        """What this generation calls the columns of its tables, by ``schema.table``."""
        found = {}
        for table, held in (read_document(self.file) or {}).get("tables", {}).items():
            told = {id_: tuple(attnums) for id_, attnums in held.get("told", {}).items()}
            later = {int(oid): _by_attnum(names) for oid, names in held.get("later", {}).items()}
            names = _by_attnum(held["names"])
            found[table] = Naming(held["schema_id"], held["oid"], names, told, later)
        return found

    def remember_namings(self, namings: Mapping[str, Naming]) -> None:
        """Keep them: its SQL and its store are made of these names."""
        if namings != self.namings():
            found = {table: one._asdict() for table, one in namings.items()}
            write_document(self.file, {**(read_document(self.file) or {}), "tables": found})

    def letters(self) -> tuple[int, int]:
        """Where the topic of dead letters ended when this generation last wrote to it, 0 before;
        and how many keys are parked since."""
        held = (read_document(self.file) or {}).get("letters", [0, 0])
        return held[0], held[1]

    def remember_letters(self, end: int, parked: int) -> None:
        """Keep it: letters that are gone would be missed by nobody."""
        write_document(self.file, {**(read_document(self.file) or {}), "letters": [end, parked]})

    def replay(self) -> Replay | None:
        """The newest, whether it is over or not; None before the first."""
        held = (read_document(self.file) or {}).get("replay")
        if held is None:
            return None
        offsets = {name: _offsets(held[name]) for name in ("starts", "until")}
        return Replay(**{**held, **offsets})

    def remember_replay(self, replay: Replay) -> None:
        """Keep it. Call it before the stream goes back."""
        write_document(self.file, {**(read_document(self.file) or {}), "replay": replay._asdict()})

    def truncated(self) -> Position | None:
        """The newest TRUNCATE that this generation has met in any partition."""
        held = (read_document(self.file) or {}).get("truncated")
        return None if held is None else Position(*held)

    def remember_truncated(self, position: Position) -> None:
        """Keep ``position`` over a restart. Call it before its batch is committed."""
        held = read_document(self.file) or {}
        write_document(self.file, {**held, "truncated": list(position)})


def lost_error(view: str, store: str) -> ViewError:
    """Of a store without what was applied to it."""
    return ViewError(
        f"view {view}: store {store} no longer holds the changes that were applied to it, or "
        "was replaced",
        f"run `headwater view rebuild {view}`",
    )


def _by_attnum(held: dict[str, str]) -> dict[int, str]:
    """As JSON has them: its names are text."""
    return {int(attnum): name for attnum, name in held.items()}


def _offsets(held: dict[str, dict[str, int]]) -> Offsets:
    """As JSON has them: its names are text."""
    return {
        topic: {int(partition): at for partition, at in of_topic.items()}
        for topic, of_topic in held.items()
    }


def view_directory(root: str, source: str, view: str) -> Path:
    """Where all of a view's state is. Raises ``ViewError`` for what is no local path."""
    if "://" in root:
        raise ViewError(f"apply.state: {root} is not a local path", "name a directory")
    return Path(root) / source / view


def state_directory(directory: Path, number: int) -> Path:
    """Where one generation's state is."""
    return directory if number == 1 else directory / str(number)


def is_begun(directory: Path) -> bool:
    """Whether a generation was ever applied: what it holds depends on what was declared."""
    return (directory / CHECKPOINT).is_dir()


def generation_id(directory: Path) -> str | None:
    """Of the generation in a directory, None if there is none."""
    held = read_document(directory / "view.json")
    return None if held is None else str(held["generation"])


def open_state(
    directory: Path, wanted: Declaration, beginning: Beginning | None = None
) -> ViewState:
    """The state in a generation's directory, created if there is none.

    Raises ``ViewError`` when it was declared otherwise: what the store holds is not what the new
    declaration says.
    """
    held = read_document(directory / "view.json")
    if held is not None and is_begun(directory):
        if changed := differing(declaration(held), wanted):
            raise ViewError(
                f"{directory.name}: {changed} changed since it was last applied",
                f"run `headwater view rebuild {directory.name}`",
            )
        return ViewState(directory, held["generation"])
    private_folder(directory)
    state = ViewState(directory, str(uuid.uuid4()))
    document: dict[str, object] = {"generation": state.generation, **wanted.document()}
    if beginning is not None:
        document["beginning"] = {**beginning._asdict(), "topic_ids": dict(beginning.topic_ids)}
    elif held is not None and "beginning" in held:  # it is filled, and no batch was applied
        document |= {name: held[name] for name in ("beginning", "tables") if name in held}
    write_document(state.file, document)
    return state


def read_document(file: Path) -> dict[str, Any] | None:
    """A JSON file, None if it is not there."""
    try:
        held: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ViewError(
            f"{file} is damaged", "delete its directory: the view starts over"
        ) from None
    return held


def write_document(file: Path, document: dict[str, object]) -> None:
    """Whole or not at all: a kill between leaves what was there."""
    scratch = file.with_suffix(".new")
    with scratch.open("w", encoding="utf-8") as out:
        json.dump(document, out, indent=2)
        out.flush()
        os.fsync(out.fileno())
    scratch.replace(file)
