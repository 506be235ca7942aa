"""``python -m tests.oracle.record_cloud``: what CloudEventsConverter makes of our events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from jobs.spark.jars import jars
from tests.oracle.cloud_records import cases
from tests.oracle.program import answers, of_java

RECORDED: Final = Path(__file__).with_name("debezium_cloud_events.json")
_PROGRAM: Final = Path(__file__).with_name("CloudEvents.java")


def main() -> None:
    """Write the recording beside this module."""
    sent = list(cases())
    lines = [f"{str(one.schemas).lower()}\t{one.event.decode()}" for one in sent]
    made = answers(of_java(_PROGRAM, jars("debezium")), lines)
    recorded = {}
    for one, answer in zip(sent, made, strict=True):
        event, headers = answer.split("\t")
        recorded[one.name] = {"event": json.loads(event), "headers": headers}
    text = json.dumps(recorded, ensure_ascii=False, separators=(",", ":"))
    RECORDED.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
