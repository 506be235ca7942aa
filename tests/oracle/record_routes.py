"""``python -m tests.oracle.record_routes``: what ByLogicalTableRouter makes of our events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.oracle.program import answers, of_java
from tests.oracle.route_records import cases
from tests.support.consumers.consumer_jars import consumer_jars

RECORDED: Final = Path(__file__).with_name("debezium_routes.json")
_PROGRAM: Final = Path(__file__).with_name("RouteTables.java")


def main() -> None:
    """Write the recording beside this module: topics, keys, and the names of values' schemas."""
    sent = list(cases())
    lines = [
        f"{one.settings}\t{one.plain}\t{one.key.decode()}\t{one.value.decode()}" for one in sent
    ]
    recorded = {}
    for one, answer in zip(
        sent, answers(of_java(_PROGRAM, consumer_jars("connect")), lines), strict=True
    ):
        topic, *rest = answer.split("\t")
        key, value = rest or ("", "")
        recorded[one.name] = {
            "topic": topic,
            "key": json.loads(key) if key else None,
            "value": json.loads(value)["schema"]["name"] if value else None,
        }
    told = [
        f"{json.dumps(name)}:{json.dumps(one, ensure_ascii=False, separators=(',', ':'))}"
        for name, one in recorded.items()
    ]
    RECORDED.write_text("{" + ",\n".join(told) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
