"""Clients of librdkafka, through confluent-kafka: their settings, and why a broker refuses them.

The settings that order and exactly-once publishing rest on may not be changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from cdc.errors import UsageError
from cdc.kafka.security import PLAINTEXT, Security, for_librdkafka

_FIXED: Final[dict[str, str | int | bool]] = {
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
_DEFAULTS: Final[dict[str, str | int | bool]] = {
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
HELD_BYTES: Final = 300
"""What a client holds of a record besides key and value: bookkeeping, the allocator's share."""
_REFUSAL_S: Final = 3.0
_CLIENTS_WORDS: Final = re.compile(r"^\w+://\S+: | \(after \d+ms in state \w+\)$")
_CERTIFICATE_HINT: Final = "set kafka.ssl_ca_location to the PEM of who signed the certificate"
_PROTOCOL_HINT: Final = (
    "check kafka.security_protocol: does the listener want SASL, TLS or a client certificate?"
)


def open_client(
    bootstrap_servers: str,
    settings: Mapping[str, str | int | float | bool] | None,
    on_error: Callable[[KafkaError], None],
    security: Security = PLAINTEXT,
    on_statistics: Callable[[str], None] | None = None,
    more: Mapping[str, str | int | bool] | None = None,
) -> tuple[Any, int]:
    """A client of librdkafka as every part of Headwater configures it, and the largest record it
    takes. ``on_statistics`` gets JSON (librdkafka's STATISTICS.md). Raises ``UsageError`` for
    settings that would break order or that Kafka does not know."""
    settings = dict(settings or {})
    clash = sorted(settings.keys() & _FIXED.keys())
    if clash:
        raise UsageError(
            f"kafka.producer: {', '.join(clash)} may not be changed",
            "exactly-once order depends on it: remove the setting",
        )
    merged = {
        **_DEFAULTS,
        **settings,
        **_FIXED,
        **(more or {}),
        "bootstrap.servers": bootstrap_servers,
    }
    private: dict[str, Any] = dict(for_librdkafka(security))
    if on_statistics is not None:
        private["stats_cb"] = on_statistics
    try:
        client = Producer({**merged, **private, "error_cb": on_error, "log_level": 2})
    except KafkaException as error:
        raise UsageError(f"kafka: the producer: {error.args[0].str()}") from None
    return client, int(merged["message.max.bytes"])


class Refusal(NamedTuple):
    """Why no client can connect. ``for_good``: trying again gives the same answer."""

    said: str
    hint: str
    for_good: bool


def why_refused(bootstrap_servers: str, security: Security) -> Refusal | None:
    """What a broker answers to a client with these options; None if it takes it, or is silent."""
    found: list[Refusal] = []

    def heard(error: KafkaError) -> None:
        if (refusal := _refusal(error)) is not None:
            found.append(refusal)

    client, _ = open_client(bootstrap_servers, None, heard, security)
    deadline = monotonic() + _REFUSAL_S
    while not any(refusal.for_good for refusal in found) and monotonic() < deadline:
        client.poll(0.05)
    return max(found, key=lambda refusal: refusal.for_good, default=None)


def _refusal(error: KafkaError) -> Refusal | None:
    said = _CLIENTS_WORDS.sub("", error.str())
    if error.code() == KafkaError._AUTHENTICATION:
        unknown = "mechanism handshake failed" in said
        hint = "kafka.sasl_mechanism" if unknown else "kafka.sasl_username and kafka.sasl_password"
        return Refusal(said, f"check {hint}", True)
    if error.code() == KafkaError._SSL:
        return Refusal(said.split(": broker cert")[0], _CERTIFICATE_HINT, True)
    if "SSL handshake failed" in said:
        return Refusal(said, _PROTOCOL_HINT, True)
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        return Refusal("every connection was closed", _PROTOCOL_HINT, False)
    return None
