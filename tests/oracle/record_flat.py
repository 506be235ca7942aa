"""``python -m tests.oracle.record_flat``: what ExtractNewRecordState makes of our events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.oracle.flat_records import cases
from tests.oracle.program import answers, of_java
from tests.support.consumers.consumer_jars import consumer_jars

RECORDED: Final = Path(__file__).with_name("debezium_flat_rows.json")
_PROGRAM: Final = Path(__file__).with_name("FlattenRows.java")


def main() -> None:
    """Write the recording beside this module."""
    sent = list(cases())
    lines = [f"{one.settings}\t{one.event.decode()}" for one in sent]
    made = answers(of_java(_PROGRAM, consumer_jars("connect")), lines)
    recorded = {
        one.name: json.loads(answer) if answer.startswith("{") else answer
        for one, answer in zip(sent, made, strict=True)
    }
    text = json.dumps(recorded, ensure_ascii=False, indent=None, separators=(",", ":"))
    RECORDED.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
