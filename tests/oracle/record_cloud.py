"""``python -m tests.oracle.record_cloud``: what CloudEventsConverter makes of our events."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from jobs.spark.jars import jars
from jobs.spark.java import find_java
from tests.oracle.cloud_records import cases

RECORDED: Final = Path(__file__).with_name("debezium_cloud_events.json")
_PROGRAM: Final = Path(__file__).with_name("CloudEvents.java")


def main() -> None:
    """Write the recording beside this module."""
    sent = list(cases())
    lines = [f"{str(one.schemas).lower()}\t{one.event.decode()}" for one in sent]
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given", Path(folder) / "found"
        given.write_text("\n".join(lines) + "\n", encoding="utf-8")
        classes = ":".join(map(str, jars("debezium")))
        command = [str(find_java()), "-cp", classes, str(_PROGRAM), str(given), str(found)]
        subprocess.run(command, check=True)
        answers = found.read_text(encoding="utf-8").splitlines()
    recorded = {}
    for one, answer in zip(sent, answers, strict=True):
        event, headers = answer.split("\t")
        recorded[one.name] = {"event": json.loads(event), "headers": headers}
    text = json.dumps(recorded, ensure_ascii=False, separators=(",", ":"))
    RECORDED.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
