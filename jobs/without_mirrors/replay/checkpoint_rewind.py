"""The checkpoint of a view's query, rewound: its stream begins again at an earlier place.

Where a stream goes on is a matter of the last committed batch (``jobs.spark.checkpoint``), and
``rewind`` adds one: without records, ending at an earlier place. Numbers go on rising, by which a
store may know its batches.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from cdc.kafka.broker import Offsets
from jobs.spark.checkpoint import batch_offsets, committed_batch, planned_batch


def rewind(checkpoint: Path, starts: Offsets) -> None:
    """Let the next batch begin at ``starts``, none of which is above what was applied; only while
    nobody applies the stream, and after a first batch was committed.

    A batch that was planned and not committed is passed over: it is repeated with the rest.
    """
    finish_rewind(checkpoint)
    planned = planned_batch(checkpoint)
    assert planned is not None, "a first batch was committed"
    number = str(planned + 1)
    lines = (checkpoint / "offsets" / str(planned)).read_text(encoding="utf-8").splitlines()
    lines[2] = json.dumps(
        {topic: {str(p): at for p, at in of_topic.items()} for topic, of_topic in starts.items()},
        separators=(",", ":"),
    )
    _write(checkpoint / "offsets" / number, "\n".join(lines))
    _commit(checkpoint, number)


def finish_rewind(checkpoint: Path) -> None:
    """Commit what a killed ``rewind`` had begun: a batch that was planned and goes back."""
    planned, committed = planned_batch(checkpoint), committed_batch(checkpoint)
    if planned is None or committed is None or planned <= committed:
        return
    before, after = batch_offsets(checkpoint, committed), batch_offsets(checkpoint, planned)
    if any(
        at < before.get(topic, {}).get(partition, 0)
        for topic, ends in after.items()
        for partition, at in ends.items()
    ):
        _commit(checkpoint, str(planned))


def _commit(checkpoint: Path, number: str) -> None:
    last = checkpoint / "commits" / str(committed_batch(checkpoint))
    _write(checkpoint / "commits" / number, last.read_text(encoding="utf-8"))


def _write(file: Path, text: str) -> None:
    """Whole or not at all; Spark takes a file without its checksum beside it."""
    scratch = file.with_name(f".{file.name}.headwater")
    with scratch.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    scratch.replace(file)
