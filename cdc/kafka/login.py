"""A password that is changed while clients of librdkafka run.

The client keeps what it was made with. Once a broker has refused that, it is given what the file of
the setting has by then, and signs in with it by itself (``cdc.secret_values``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from cdc.kafka.security import Security, options


class Login:
    """The ``error_cb`` of a client; ``on_error`` hears of every error.

    A callback must not call the client: that would end the process. So ``renew`` is what the
    client's owner calls before it lets the client work.
    """

    def __init__(
        self, security: Security, on_error: Callable[[KafkaError], None] = lambda _: None
    ) -> None:
        self._security, self._on_error = security, on_error
        self._given = options(security)
        self._refused = False

    def __call__(self, error: KafkaError) -> None:
        self._refused |= error.code() == KafkaError._AUTHENTICATION
        self._on_error(error)

    def renew(self, client: Any) -> None:
        """Give the client the password of now, if it was refused with another one."""
        if self._refused and (now := options(self._security)) != self._given:
            self._given, self._refused = now, False
            client.set_sasl_credentials(now["sasl_username"], now["sasl_password"])
