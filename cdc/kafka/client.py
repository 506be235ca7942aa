"""Clients of librdkafka, through confluent-kafka: their settings, and why a broker refuses them.

The settings that order and exactly-once publishing rest on may not be changed:
``cdc.kafka.producer_settings``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from cdc.errors import UsageError
from cdc.kafka.login import Login
from cdc.kafka.producer_settings import (
    Settings,
    contradiction,
    explained,
    forbidden,
    largest_bytes,
    merged,
    without_effect,
)
from cdc.kafka.security import PLAINTEXT, Security, for_librdkafka

HELD_BYTES: Final = 300
"""What a client holds of a record besides key and value: bookkeeping, the allocator's share."""
ENVELOPE_BYTES: Final = 500
"""More than Kafka's own overhead of one record."""
_REFUSAL_S: Final = 3.0
_REFUSED: Final = (KafkaException, TypeError, ValueError, AttributeError)
"""How the client refuses a setting: its Python part has words of its own."""
_WARNINGS: Final = 4
"""Syslog's level."""
_CLIENTS_WORDS: Final = re.compile(r"^\w+://\S+: | \(after \d+ms in state \w+\)$")
_CERTIFICATE_HINT: Final = "set kafka.ssl_ca_location to the PEM of who signed the certificate"
_PROTOCOL_HINT: Final = (
    "check whether the listener wants SASL, TLS or a client certificate (kafka.security_protocol)"
)


def open_client(
    bootstrap_servers: str,
    settings: Settings | None,
    on_error: Callable[[KafkaError], None],
    security: Security = PLAINTEXT,
    on_statistics: Callable[[str], None] | None = None,
    more: Mapping[str, str | int | bool] | None = None,
) -> tuple[Any, int, Login]:
    """A client of librdkafka as every part of Headwater configures it, the largest record it takes,
    and what renews its password. ``on_statistics`` gets JSON (librdkafka's STATISTICS.md). Raises
    ``UsageError`` for settings that would break order or that Kafka does not know."""
    settings = dict(settings or {})
    if forbidden(settings):
        raise _all_of(setting_faults(settings))
    whole = {**merged(settings), **(more or {}), "bootstrap.servers": bootstrap_servers}
    login = Login(security, on_error)
    private: dict[str, Any] = {**for_librdkafka(security), "error_cb": login}
    if on_statistics is not None:
        private["stats_cb"] = on_statistics
    try:
        client = Producer({**whole, **private, "log_level": 2})
    except _REFUSED as error:
        if faults := setting_faults(settings):
            raise _all_of(faults) from None
        hint = "check the options of [kafka] and [kafka.producer]"
        raise UsageError(f"kafka: {_said(error)}", hint) from None
    return client, largest_bytes(settings), login


def setting_faults(settings: Settings) -> list[UsageError]:
    """What speaks against settings of ``[kafka.producer]``, each setting by itself if it can be
    told. Producers are made and thrown away: they have no address, and connect to nothing."""
    refused = forbidden(settings)
    faults = list(refused.values())
    rest = {name: value for name, value in settings.items() if name not in refused}
    said = _tried(rest)
    if not said:
        return faults
    alone = [
        fault
        for name, value in rest.items()
        if (why := _tried({name: value})) and (fault := explained(why, name, value))
    ]
    return faults + (alone or [contradiction(said)])


def settings_without_effect(settings: Settings) -> list[str]:
    """Those that no producer looks at. The settings are known to have no faults."""
    logged = _Logged()
    logger = logging.Logger("librdkafka")
    logger.addHandler(logged)
    client = Producer({**merged(settings), "log_level": _WARNINGS}, logger=logger)
    client.poll(0)  # what was logged waits in its queue
    found = {without_effect(line) for line in logged.lines}
    return sorted(found & settings.keys())


class _Logged(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _tried(settings: Settings) -> str:
    """What librdkafka says of settings that it refuses."""
    try:
        Producer({**merged(settings), "log_level": 2})
    except _REFUSED as error:
        return _said(error)
    return ""


def _said(error: Exception) -> str:
    return str(error.args[0].str() if isinstance(error, KafkaException) else error).strip()


def _all_of(faults: Sequence[UsageError]) -> UsageError:
    return UsageError("\n".join(map(str, faults)))


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

    client, *_ = open_client(bootstrap_servers, None, heard, security)
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
