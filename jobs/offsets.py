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
from cdc.kafka.broker import Offsets


def committed_batch(checkpoint: Path) -> int | None:
    """The number of the last committed batch, None before the first."""
    return max(_numbers(checkpoint / "commits"), default=None)


def planned_offsets(checkpoint: Path) -> Offsets:
    """Where the newest batch ends that may have been applied, committed or not."""
    number = max(_numbers(checkpoint / "offsets"), default=None)
    return {} if number is None else batch_offsets(checkpoint, number)


def is_started(checkpoint: Path) -> bool:
    """Whether a first batch was ever planned: from then on Spark knows where it reads."""
    return any(True for _ in _numbers(checkpoint / "offsets"))


def batch_offsets(checkpoint: Path, number: int) -> Offsets:
    """Where batch ``number`` ends: the next offset to read, by topic and partition."""
    file = checkpoint / "offsets" / str(number)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        found = json.loads(lines[2])
    except (OSError, ValueError, IndexError):
        raise ViewError(
            f"{file} cannot be read",
            "the checkpoint is damaged: `headwater view rebuild` makes the view anew",
        ) from None
    return {
        topic: {int(partition): offset for partition, offset in ends.items()}
        for topic, ends in found.items()
    }


def _numbers(directory: Path) -> Iterator[int]:
    if directory.is_dir():
        yield from (int(path.name) for path in directory.iterdir() if path.name.isdigit())
