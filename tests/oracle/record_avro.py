"""``python -m tests.oracle.record_avro``: what Connect's AvroConverter makes of our records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from cdc.events.schemas.schema import schema_head, with_head
from tests.oracle.avro_records import given
from tests.oracle.program import answers, of_java
from tests.support.consumers.consumer_jars import consumer_jars

RECORDED: Final = Path(__file__).with_name("connect_avro.json")
_PROGRAM: Final = Path(__file__).with_name("ConnectAvro.java")


def main() -> None:
    """Write the recording beside this module."""
    records = list(given())
    lines = [with_head(schema_head(one.schema), one.text).decode() for one in records]
    jars = [*consumer_jars("avro"), *consumer_jars("connect")]
    made = answers(of_java(_PROGRAM, jars), lines)
    recorded = {}
    for one, answer in zip(records, made, strict=True):
        document, octets, back = answer.split("\t")
        payload = json.loads(back)["payload"]
        recorded[one.name] = {"document": document, "hex": octets, "back": payload}
    text = json.dumps(recorded, ensure_ascii=False, indent=1, sort_keys=True)
    RECORDED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
