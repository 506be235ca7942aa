"""Which offsets a view has applied: those of the last batch its checkpoint has committed.

Spark writes ``offsets/<n>`` before batch n and ``commits/<n>`` after it. Reading them serves a
running query, its end and a restart alike: a kill between the batch's commit and the group's
leaves nothing stale. Format: a version line, a metadata line, one JSON line for each source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from cdc.errors import ViewError
from cdc.kafka.broker import Offsets, Place
from jobs.batch.thresholds import FEW_ROWS


def committed_batch(checkpoint: Path) -> int | None:
    """The number of the last committed batch, None before the first."""
    return max(_numbers(checkpoint / "commits"), default=None)


def committed_ago_s(checkpoint: Path, now_s: float) -> float:
    """How long ago the last batch was committed; 0 before the first. ``now_s`` is Unix time."""
    number = committed_batch(checkpoint)
    if number is None:
        return 0.0
    return max(0.0, now_s - (checkpoint / "commits" / str(number)).stat().st_mtime)


def planned_batch(checkpoint: Path) -> int | None:
    """The number of the newest batch, committed or not; None before the first."""
    return max(_numbers(checkpoint / "offsets"), default=None)


def planned_offsets(checkpoint: Path) -> Offsets:
    """Where the newest batch ends that may have been applied, committed or not."""
    number = planned_batch(checkpoint)
    return {} if number is None else batch_offsets(checkpoint, number)


def is_started(checkpoint: Path) -> bool:
    """Whether a first batch was ever planned: from then on Spark knows where it reads."""
    return planned_batch(checkpoint) is not None


def batch_offsets(checkpoint: Path, number: int) -> Offsets:
    """Where batch ``number`` ends: the next offset to read, by topic and partition."""
    file = checkpoint / "offsets" / str(number)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        found = json.loads(lines[2])
    except (OSError, ValueError, IndexError):
        raise ViewError(
            f"{file} cannot be read",
            "run `headwater view rebuild`: the checkpoint is damaged",
        ) from None
    return {
        topic: {int(partition): offset for partition, offset in ends.items()}
        for topic, ends in found.items()
    }


def batch_with(checkpoint: Path, place: Place, offset: int) -> tuple[int, float] | None:
    """The committed batch that had a record, and when it was committed, in seconds since 1970; None
    if none has, or Spark does not keep it any more."""
    topic, partition = place
    found = None
    try:
        for number in sorted(_numbers(checkpoint / "commits"), reverse=True):
            if batch_offsets(checkpoint, number).get(topic, {}).get(partition, 0) <= offset:
                return found
            found = number, (checkpoint / "commits" / str(number)).stat().st_mtime
    except (ViewError, OSError):
        return None  # Spark has just removed it
    return found if found is not None and found[0] == 0 else None


def records_between(begin: Offsets, end: Offsets) -> int:
    """How many records there can be. What ``begin`` does not name counts from 0."""
    return sum(
        at - begin.get(topic, {}).get(partition, 0)
        for topic, of_topic in end.items()
        for partition, at in of_topic.items()
    )


def is_few(begin: Offsets, end: Offsets) -> bool:
    """Whether a batch is so small that one task is done with it sooner than several."""
    return records_between(begin, end) <= FEW_ROWS


def _numbers(directory: Path) -> Iterator[int]:
    if directory.is_dir():
        yield from (int(path.name) for path in directory.iterdir() if path.name.isdigit())
