"""``python -m tests.oracle.record_flat``: what ExtractNewRecordState makes of our events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.oracle.flat_records import Case, HeaderCase, cases, header_cases
from tests.oracle.program import answers, of_java
from tests.support.consumers.consumer_jars import consumer_jars

RECORDED: Final = Path(__file__).with_name("debezium_flat_rows.json")
_PROGRAM: Final = Path(__file__).with_name("FlattenRows.java")


def main() -> None:
    """Write the recording beside this module."""
    sent: list[Case | HeaderCase] = [*cases(), *header_cases()]
    lines = [f"{one.settings}\t{one.event.decode()}" for one in sent]
    made = answers(of_java(_PROGRAM, consumer_jars("connect")), lines)
    recorded = {}
    for one, answer in zip(sent, made, strict=True):
        value, _, headers = answer.partition("\t")
        recorded[one.name] = json.loads(headers or value) if value[0] == "{" or headers else value
    text = json.dumps(recorded, ensure_ascii=False, indent=None, separators=(",", ":"))
    text = text.replace('},"', '},\n"').replace(']],"', ']],\n"')
    RECORDED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
