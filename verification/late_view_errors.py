"""What is said of views that are late, and of those that nobody applies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from cdc.lsn import format_lsn
from cdc.plural import plural
from jobs.generations.last_error import stopped
from jobs.generations.view_locks import is_free
from verification.view_positions import Lacking, StoppedError


class Standing(NamedTuple):
    """A view now: it holds everything below ``below``, None if nobody can say, and lacks so many
    records of what it was asked for. ``applied`` says whether this machine applies it now, None if
    its state is elsewhere."""

    view: str
    below: int | None
    lacks: int
    parked: int
    applied: bool | None


class Watched(Protocol):
    """What is known of views (``verification.view_facts``)."""

    def applied(self, view: str) -> bool | None: ...

    def refuse_stopped(self, view: str, lacking: Lacking) -> None: ...


def said(one: Standing, lsn: int) -> str:
    """What a view lacks, in words."""
    if not one.lacks:  # of topics that are empty
        return f"view {one.view} was not built yet"
    holds = ""
    if one.below is not None:
        holds = f"holds what was committed below {format_lsn(one.below)} and "
    records = plural(one.lacks, "record")
    return f"view {one.view} {holds}lacks {records} of what was committed below {format_lsn(lsn)}"


def way_out(found: Sequence[Standing]) -> str:
    """What can be done about views that are late."""
    names = ", ".join(one.view for one in found if not one.applied)
    if any(one.applied is False for one in found):
        return f"run `headwater apply`: no process applies {names}"
    if names:
        return f"check that `headwater apply` is running for {names}"
    return "wait longer: it is being applied, and `headwater lag` shows its progress"


def is_applied(directory: Path) -> bool | None:
    """Whether somebody has the stream of the view now; None if its state is elsewhere."""
    return not is_free(directory, "stream") if directory.is_dir() else None


def refuse_stopped(view: str, directory: Path, lacking: Lacking) -> None:
    """Raise ``StoppedError`` for a view whose stream a fault has ended."""
    if (note := stopped(directory)) is None:
        return
    said = note.fault if note.fault.startswith(f"view {view}") else f"view {view}: {note.fault}"
    raise StoppedError(f"stopped at {note.at}, no process applies it: {said}", note.hint, lacking)


def idle(found: Mapping[str, bool | None]) -> Iterator[str]:
    """What to tell, while they are waited for, of views that nobody seems to apply, from whether
    each is applied: a line for all of a kind, as one `headwater apply` is for all of them."""
    for applied, one, several in (
        (False, "is not being applied", "are not being applied"),
        (None, "has not been applied on this machine", "have not been applied on this machine"),
    ):
        if names := [view for view, known in found.items() if known is applied]:
            who = (
                f"view {names[0]} {one}"
                if len(names) == 1
                else f"views {', '.join(names)} {several}"
            )
            yield f"{who}; waiting for `headwater apply`"


def watched(facts: Watched, view: str, tell: Callable[[str], None]) -> Callable[[Lacking], None]:
    """Of who waits for a view: what hears that it lacks something. ``tell`` is told, once, that
    nobody seems to apply it; a view that has stopped raises ``StoppedError``."""
    told: list[str] = []

    def on_lacking(lacking: Lacking) -> None:
        facts.refuse_stopped(view, lacking)
        if not told:
            for line in idle({view: facts.applied(view)}):
                tell(line)
        told.append(view)

    return on_lacking
