"""The settings of ``[kafka.producer]``: librdkafka's, with defaults of our own, some of which may
not be changed. And what librdkafka says of a setting, in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from cdc.errors import UsageError

Settings = Mapping[str, str | int | float | bool]

FIXED: Final[dict[str, str | int | bool]] = {
    "enable.idempotence": True,
    "acks": "all",
    # A refused batch must not be overtaken: the partition's tail would then claim it was written.
    "enable.gapless.guarantee": True,
    # Records wait for Kafka for as long as it takes; giving one up would lose it.
    "message.timeout.ms": 0,
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 10_000_000,
    "queue.buffering.max.kbytes": 2_097_151,
}
DEFAULTS: Final[dict[str, str | int | bool]] = {
    "compression.type": "lz4",
    "linger.ms": 1,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "message.max.bytes": 1_000_000,
    "socket.nagle.disable": True,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "client.id": "headwater",
    # How often the client says what it knows, where it is asked (``on_statistics``).
    "statistics.interval.ms": 60_000,
}

_ORDER: Final = "remove the setting: exactly-once order depends on it"
_ANSWERS: Final = "remove the setting: each record's acknowledgement is awaited"
_CODE: Final = "remove the setting: it takes code, not a value"
_BOUND: Final = "set capture.queue_mb instead, which bounds what waits for Kafka"
_MAY_NOT: Final[dict[str, str]] = {
    **dict.fromkeys(FIXED, _ORDER),
    "request.required.acks": _ORDER,  # librdkafka's other names of the same
    "delivery.timeout.ms": _ORDER,
    "queue.buffering.max.messages": _BOUND,
    "queue.buffering.max.kbytes": _BOUND,
    "transactional.id": "remove the setting: the producer is idempotent without transactions",
    "delivery.report.only.error": _ANSWERS,
    "on_delivery": _ANSWERS,
    "bootstrap.servers": "set kafka.bootstrap_servers, for every client",
    "metadata.broker.list": "set kafka.bootstrap_servers, for every client",
    "log_level": "remove the setting: what librdkafka reports is an error of the command",
    "logger": _CODE,
    "default.topic.config": "put its settings into kafka.producer themselves",
}
# What else people set, for those who misspell it; not all that librdkafka has.
_KNOWN: Final = (
    *DEFAULTS, "batch.num.messages", "compression.codec", "compression.level",
    "connections.max.idle.ms", "debug", "max.in.flight", "message.copy.max.bytes",
    "message.send.max.retries", "metadata.max.age.ms", "queue.buffering.max.ms",
    "receive.message.max.bytes", "request.timeout.ms", "retries", "retry.backoff.max.ms",
    "retry.backoff.ms", "socket.connection.setup.timeout.ms", "socket.keepalive.enable",
    "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms",
    "sticky.partitioning.linger.ms", "broker.address.family",
    "topic.metadata.refresh.interval.ms",
)  # fmt: skip
_JAVA: Final = {
    "max.request.size": "write message.max.bytes, which is librdkafka's name for it",
    "buffer.memory": _BOUND,
    "receive.buffer.bytes": "write socket.receive.buffer.bytes, librdkafka's name for it",
    "send.buffer.bytes": "write socket.send.buffer.bytes, librdkafka's name for it",
}
_CHOICES: Final = {
    "compression.type": "none, gzip, snappy, lz4 or zstd",
    "compression.codec": "none, gzip, snappy, lz4 or zstd",
}
_UNKNOWN: Final = re.compile(r"No such configuration property")
_RANGE: Final = re.compile(r"outside allowed range (-?\d+)\.\.(-?\d+)")
_BOOL: Final = re.compile(r"Expected bool value")
_TOGETHER: Final = re.compile(r"Failed to create producer: (.*)", re.DOTALL)
_IGNORED: Final = re.compile(r"Configuration property (\S+) is a consumer property")


def merged(settings: Settings) -> dict[str, str | int | float | bool]:
    """What a producer gets."""
    return {**DEFAULTS, **settings, **FIXED}


def largest_bytes(settings: Settings) -> int:
    """The largest record that a producer with these settings takes, in bytes."""
    return int(merged(settings)["message.max.bytes"])


def forbidden(settings: Settings) -> dict[str, UsageError]:
    """Those that may not be set, whatever their value."""
    found = {}
    for name, value in settings.items():
        hint = _MAY_NOT.get(name) or (_CODE if name.endswith("_cb") else "")
        if hint:
            found[name] = UsageError(f"kafka.producer: {name} cannot be changed", hint)
        elif name == "message.max.bytes" and not re.fullmatch(r"\d+", str(value)):
            found[name] = UsageError(
                f"kafka.producer: {name} = {value!r} is not a size in bytes",
                f"write digits only, for example {DEFAULTS[name]}",
            )
        elif name == "statistics.interval.ms" and str(value).strip() in ("0", "0.0", "False"):
            found[name] = UsageError(
                f"kafka.producer: {name} = 0 hides partitions that are added from capture",
                "set 1 or more, or remove the setting",
            )
    return found


def explained(said: str, name: str, value: object) -> UsageError | None:
    """What librdkafka says of one setting; None for what it says of several together."""
    if _TOGETHER.match(said):
        return None
    given = f"kafka.producer: {name} = {value!r}"
    if _UNKNOWN.match(said):
        return UsageError(f"kafka.producer: librdkafka has no setting {name}", _meant(name))
    if bounds := _RANGE.search(said):
        return UsageError(f"{given} is out of range", f"set {bounds[1]} to {bounds[2]}")
    if _BOOL.match(said):
        return UsageError(f"{given} is neither true nor false", "set true or false")
    allowed = _CHOICES.get(name)
    way_out = f"set {allowed}" if allowed else "correct it, or remove the setting"
    return UsageError(f"{given} is not a valid value", way_out)


def contradiction(said: str) -> UsageError:
    """What librdkafka says of settings that do not go together."""
    match = _TOGETHER.match(said)
    reason = " ".join((match[1] if match else said).replace("`", "").split())
    return UsageError(f"kafka.producer: {reason}", "correct the settings, or remove them")


def without_effect(logged: str) -> str:
    """The setting that librdkafka's log says a producer ignores, or nothing."""
    match = _IGNORED.search(logged)
    return match[1] if match else ""


def _meant(name: str) -> str:
    if name in _JAVA:
        return _JAVA[name]
    close = get_close_matches(name.lower().replace("_", "."), _KNOWN, 1, 0.75)
    return f"did you mean {close[0]}?" if close else "correct it, or remove the setting"
