"""``python -m tests.oracle.record_flat``: what ExtractNewRecordState makes of our events."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from jobs.spark.java import find_java
from tests.oracle.flat_records import cases
from tests.support.consumers.consumer_jars import consumer_jars

RECORDED: Final = Path(__file__).with_name("debezium_flat_rows.json")
_PROGRAM: Final = Path(__file__).with_name("FlattenRows.java")


def main() -> None:
    """Write the recording beside this module."""
    sent = list(cases())
    lines = [f"{one.settings}\t{one.event.decode()}" for one in sent]
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given", Path(folder) / "found"
        given.write_text("\n".join(lines) + "\n", encoding="utf-8")
        jars = ":".join(map(str, consumer_jars("connect")))
        command = [str(find_java()), "-cp", jars, str(_PROGRAM), str(given), str(found)]
        subprocess.run(command, check=True)
        answers = found.read_text(encoding="utf-8").splitlines()
    recorded = {
        one.name: json.loads(answer) if answer.startswith("{") else answer
        for one, answer in zip(sent, answers, strict=True)
    }
    text = json.dumps(recorded, ensure_ascii=False, indent=None, separators=(",", ":"))
    RECORDED.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
