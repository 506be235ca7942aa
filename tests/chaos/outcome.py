"""What a seed did and found, and what is kept of one that found something."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.checks.log import Log
from tests.chaos.workload.truth import Truth


@dataclass(slots=True)
class Outcome:
    """What a seed did and found. ``letters``: records too large for Kafka. Of a ``whole`` path:
    how many ``views`` with how many ``rows`` were compared, and in how many ``batches`` kept."""

    seed: int
    folder: Path
    drawn: str = ""
    replay: str = ""
    """The arguments that run it again."""
    findings: list[str] = field(default_factory=list)
    transactions: int = 0
    changes: int = 0
    undecided: int = 0
    emitted: int = 0
    letters: int = 0
    samples: int = 0
    restarts: int = 0
    whole: bool = False
    views: int = 0
    rows: int = 0
    batches: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)


def keep(log: Log, truth: Truth, folder: Path) -> None:
    """What was compared, for whoever looks for the cause."""
    with (folder / "events.jsonl").open("w", encoding="utf-8") as file:
        for (topic, partition), records in sorted(log.events.items()):
            for record in records:
                line = [topic, partition, record.offset, record.key, record.value]
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    with (folder / "told.jsonl").open("w", encoding="utf-8") as file:
        for (topic, partition), told in sorted(log.told.items()):
            for one in told:
                headers = {name: (text or b"").decode() for name, text in one.headers}
                start = (one.value or b"")[:300].decode("utf-8", "replace")
                line = [topic, partition, one.offset, str(one.key), headers, start]
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    with (folder / "truth.jsonl").open("w", encoding="utf-8") as file:
        for t in truth.committed:
            line = [t.worker, t.xid, t.began_lsn, t.ended_lsn, t.changes]
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    (folder / "marks.json").write_text(json.dumps(log.marks, indent=0), encoding="utf-8")
