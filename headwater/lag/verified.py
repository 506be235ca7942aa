"""What background checks found of a view: ``verified.json`` beside its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from cdc.errors import ViewError
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import read_document, write_document

_NOTE: Final = "verified.json"
Texts = tuple[str, ...]


class Verified(NamedTuple):
    """The last check was at ``lsn``, ``checked_s`` since 1970, of so many ``keys``; ``skipped``
    more could not be compared. The last one that found all of them equal was at ``equal_lsn`` and
    ``equal_s``. ``differing`` are the keys of rows that differ, each value as text. ``reason`` says
    why the view cannot be checked, "" if it can. ``given`` and ``source`` are where the walks over
    its keys are. All of it is of the ``generation`` that readers see."""

    checked_s: float
    lsn: int = 0
    keys: int = 0
    equal_s: float | None = None
    equal_lsn: int | None = None
    differing: tuple[Texts, ...] = ()
    reason: str = ""
    given: Texts | None = None
    source: Texts | None = None
    skipped: int = 0
    generation: int = 1


def read_verified(directory: Path) -> Verified | None:
    """None where the generation that readers see was never checked, or what was written is
    damaged."""
    try:
        if (held := read_document(directory / _NOTE)) is None:
            return None
        found = _verified(held)
        return found if found.generation == read_generations(directory).live_number else None
    except (ViewError, TypeError, KeyError):
        return None


def write_verified(directory: Path, found: Verified) -> None:
    write_document(directory / _NOTE, found._asdict())


def _verified(held: dict[str, Any]) -> Verified:
    found = Verified(**held)
    return found._replace(
        differing=tuple(map(tuple, found.differing)),
        given=None if found.given is None else tuple(found.given),
        source=None if found.source is None else tuple(found.source),
    )
