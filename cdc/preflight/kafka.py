"""Checks of Kafka: reachable, and the topics as ``headwater init`` makes them."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.kafka.broker import Broker, TopicSpec, different_partitions
from cdc.preflight.finding import Finding


def kafka(
    broker: Broker, address: str, specs: list[TopicSpec], initialised: bool
) -> Iterator[Finding]:
    """Raises ``HeadwaterError`` when Kafka cannot be reached."""
    existing = broker.partitions([spec.name for spec in specs])
    yield Finding("ok", "kafka", f"reachable at {address}")
    missing = [spec.name for spec in specs if spec.name not in existing]
    if missing and initialised:
        message = f"topics are missing: {', '.join(missing)}"
        hint = "of a table that is new in source.tables: headwater table add; those that were "
        hint += "deleted: headwater init --again"
        yield Finding("error", "topics", message, hint)
    elif missing:
        yield Finding("ok", "topics", f"init creates {len(missing)}, {len(existing)} are there")
    else:
        yield Finding("ok", "topics", f"{len(existing)} are there")
    single = {spec.name for spec in specs if spec.partitions == 1}
    for name, (wanted, has) in different_partitions(broker, specs).items():
        message = f"topic {name} has {has} partitions, the configuration says {wanted}"
        if name in single:
            yield Finding("error", "topics", message, f"delete topic {name}; init creates it")
        else:
            hint = f"set kafka.partitions = {has}: it applies to new topics only"
            yield Finding("warning", "topics", message, hint)
    compacted = [s.name for s in specs if s.config.get("cleanup.policy") == "compact"]
    settings = broker.topic_config([name for name in compacted if name in existing])
    for name, setting in settings.items():
        if "compact" not in setting.get("cleanup.policy", "compact"):
            message = f"topic {name} is not compacted: it would forget table versions or progress"
            hint = f"kafka-configs --alter --topic {name} --add-config cleanup.policy=compact"
            yield Finding("error", "topics", message, hint)
