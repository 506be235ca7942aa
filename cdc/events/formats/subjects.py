"""Under which name a registry keeps a schema: the strategies of Confluent's serializers. Pure."""

from __future__ import annotations

from typing import Final, Literal

Strategy = Literal["TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"]
Role = Literal["key", "value"]
TOPIC_NAME: Final[Strategy] = "TopicNameStrategy"


def subject(strategy: Strategy, topic: str, role: Role, record: str) -> str:
    """``record`` is the schema's own full name."""
    match strategy:
        case "TopicNameStrategy":
            return f"{topic}-{role}"
        case "RecordNameStrategy":
            return record
    return f"{topic}-{record}"
