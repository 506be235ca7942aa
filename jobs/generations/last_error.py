"""Why a view's stream ended, for whoever waits for the view: ``stopped.json`` beside its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cdc.errors import HeadwaterError, RetryableError, sentence
from jobs.generations.generation_record import read_generations
from jobs.generations.view_locks import is_free
from jobs.generations.view_state import read_document, write_document
from jobs.spark.faults import translate

NOTE = "stopped.json"


class Stopped(NamedTuple):
    """The fault that ended the stream to a generation, and what to do; ``at`` is UTC."""

    generation: int
    at: str
    fault: str
    hint: str


@contextmanager
def noted(directory: Path, view: str, unless: Callable[[], bool]) -> Iterator[None]:
    """A fault that ends the block is kept until the next one begins. The stream is the caller's;
    ``unless`` it was to be stopped. One that may pass is not, also where it was waited for in vain:
    whoever started the block may do so again."""
    (directory / NOTE).unlink(missing_ok=True)
    try:
        yield
    except Exception as error:
        if not unless():
            note(directory, view, translate(error, view), error.__cause__)
        raise


def note(
    directory: Path, view: str, fault: HeadwaterError, cause: BaseException | None = None
) -> None:
    """Keep the fault that has ended a view, unless it, or its cause, may pass."""
    if not any(isinstance(one, RetryableError) for one in (fault, cause)):
        with suppress(OSError, HeadwaterError):  # of the note, which is not what is told
            _keep(directory, view, fault)


def forget(directories: Iterable[Path]) -> None:
    """What ended streams that are to begin again now. Who waits for them waits for that."""
    for directory in directories:
        (directory / NOTE).unlink(missing_ok=True)


def _keep(directory: Path, view: str, fault: HeadwaterError) -> None:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    number = read_generations(directory).live_number
    hint = fault.hint or f"correct the cause, then run `headwater apply {view}`"
    write_document(directory / NOTE, Stopped(number, now, fault.message, sentence(hint))._asdict())


def stopped(directory: Path) -> Stopped | None:
    """None if the stream did not end by a fault, or somebody has it now."""
    held = read_document(directory / NOTE)
    if held is None or not is_free(directory, "stream"):
        return None
    found = Stopped(**{name: held[name] for name in Stopped._fields})
    return found if found.generation == read_generations(directory).live_number else None
