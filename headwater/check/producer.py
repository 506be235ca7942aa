"""Checks of ``[kafka.producer]``: whether librdkafka takes the settings, and the topics what they
let through. Nothing is produced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cdc.config import Config
from cdc.errors import LogError
from cdc.kafka.broker import Broker, TopicSpec
from cdc.kafka.client import setting_faults, settings_without_effect
from cdc.kafka.producer_settings import largest_bytes
from cdc.topics import progress_topic, schemas_topic
from headwater.check.finding import Finding

_LIMIT: Final = "max.message.bytes"
_NAMED: Final = 3


def producer(config: Config) -> Iterator[Finding]:
    """The settings by themselves. No server is asked."""
    settings = config.kafka.producer
    if faults := setting_faults(settings):
        for fault in faults:
            yield Finding("error", "producer", fault.message, fault.hint)
        return
    for name in settings_without_effect(settings):
        message = f"kafka.producer: {name} is a consumer setting, which producers ignore"
        yield Finding("warning", "producer", message, "remove it")
    if settings:
        yield Finding("ok", "producer", f"takes {', '.join(sorted(settings))}")


def record_sizes(config: Config, broker: Broker, specs: list[TopicSpec]) -> Iterator[Finding]:
    """Whether topics take what the producer sends: capture would stop at the first record that
    one of them refuses. A topic that init has yet to make has the cluster's limit."""
    settings = config.kafka.producer
    if setting_faults(settings):
        return
    largest = largest_bytes(settings)
    small = (schemas_topic(config.source.name), progress_topic(config.source.name))
    specs = [spec for spec in specs if spec.name not in small]
    existing = broker.topic_config(list(broker.partitions([spec.name for spec in specs])))
    default = {} if len(existing) == len(specs) else _cluster_s(broker)
    by_limit: dict[int, list[str]] = {}
    for spec in specs:
        limit = _limit(existing.get(spec.name) or {**default, **spec.config})
        if limit is not None and limit < largest:
            by_limit.setdefault(limit, []).append(spec.name)
    for limit, names in by_limit.items():
        yield _too_small(limit, names, largest)


def _cluster_s(broker: Broker) -> dict[str, str]:
    """The limit of topics that say nothing else, where this client may ask for it."""
    try:
        return {_LIMIT: broker.default_config().get("message.max.bytes", "")}
    except LogError:
        return {}


def _limit(settings: Mapping[str, str]) -> int | None:
    value = settings.get(_LIMIT, "")
    return int(value) if value.isdecimal() else None


def _too_small(limit: int, names: list[str], largest: int) -> Finding:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    noun = "topics" if len(names) > 1 else "topic"
    message = (
        f"{noun} {', '.join(names[:_NAMED])}{more}: records up to {limit} bytes, the producer "
        f"sends up to {largest}: capture stops at a record in between"
    )
    hint = f"raise {_LIMIT} of the topic to {largest} (kafka-configs --alter --topic {names[0]} "
    hint += f"--add-config {_LIMIT}={largest}; for new topics in kafka.topic), or lower "
    return Finding("warning", "record sizes", message, f"{hint}message.max.bytes of kafka.producer")
