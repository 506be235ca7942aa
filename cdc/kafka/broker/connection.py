"""One cluster's connections, and kafka-python's errors in Headwater's terms."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import tenacity
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from cdc.errors import HeadwaterError, LogError, RetryableError
from cdc.kafka.broker import codecs
from cdc.kafka.broker.direct_sockets import DIRECT
from cdc.kafka.client import why_refused
from cdc.kafka.security import PLAINTEXT, Security, for_kafka_python, options

CONNECT_TIMEOUT_S = 5.0
RETRY_TIMEOUT_S = 10.0
# A fetch at the end of a log holds the connection for this long, and the next read with it.
_FETCH_MAX_WAIT_MS = 20
# A reader sleeps for so long while it does not know the leaders of the topic that it turned to.
_BACKOFF_MS = 10

T = TypeVar("T")

# The client does not count three of these among what may be tried again: what it says of a leader
# that its newest metadata does not name, as after a broker's restart; a broker's own "unknown
# error", which Kafka's Java consumer asks again for, too; and what is said of new topics while
# brokers that have just started are not counted yet.
_PASSING: Final = (
    kafka_errors.RetriableError,
    kafka_errors.UnknownBrokerIdError,
    kafka_errors.UnknownError,
    kafka_errors.InvalidReplicationFactorError,
)
_TRIES: Final = tenacity.Retrying(
    retry=tenacity.retry_if_exception_type(_PASSING),
    stop=lambda tries: (tries.seconds_since_start or 0) >= RETRY_TIMEOUT_S,
    wait=tenacity.wait_exponential(multiplier=0.05, max=1),
    reraise=True,
)
# What the client raises as a plain RuntimeError: between two controllers, and on a connection that
# it is about to close.
_NAMELESS: Final[Mapping[str, type[kafka_errors.KafkaError]]] = {
    "Failed to find active controller id!": kafka_errors.NotControllerError,
    "Transport closed for writes": kafka_errors.KafkaConnectionError,
}


class Connection:
    """An admin client and a few readers, opened when they are first needed."""

    def __init__(self, address: str, security: Security = PLAINTEXT) -> None:
        self.address = address
        self._security = security
        self._options = options(security)
        """Those that the clients were opened with."""
        self._admin: Any = None
        self._idle_readers: list[Any] = []

    def close(self) -> None:
        """Release everything. The next call connects again."""
        for client in (self._admin, *self._idle_readers):
            if client is not None:
                client.close()
        self._admin, self._idle_readers = None, []

    def call(self, doing: str, call: Callable[[Any], T]) -> T:
        """Ask the cluster, again for ``RETRY_TIMEOUT_S`` while what it says is passing: it is
        electing, loading, or has just come back."""
        with self.translated(doing):
            self._renew()
            admin = self._connected(doing)
            return _TRIES(_named()(call), admin)

    @contextmanager
    def reader(self, doing: str) -> Iterator[Any]:
        """A consumer outside of any group, for one read."""
        self._renew()
        opened_with = self._options
        reader = self._idle_readers.pop() if self._idle_readers else self._open_reader(doing)
        try:
            yield reader
        except Exception:
            reader.close()
            raise
        except GeneratorExit:  # who reads has seen enough
            self._release(reader, opened_with)
            raise
        self._release(reader, opened_with)

    def _release(self, reader: Any, opened_with: object) -> None:
        """Keep a reader for the next read, unless the password has changed during this one."""
        if self._options is opened_with:
            self._idle_readers.append(reader)
        else:
            reader.close()

    def _renew(self) -> None:
        """Let go of clients that would sign in with a former password when they reconnect."""
        if (now := options(self._security)) != self._options:
            self.close()
            self._options = now

    def _open_reader(self, doing: str) -> Any:
        self._probe()
        codecs.provide()
        with self.translated(doing), self._reasoned(doing):
            return _opened(
                KafkaConsumer,
                bootstrap_servers=self.address,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                fetch_max_wait_ms=_FETCH_MAX_WAIT_MS,
                retry_backoff_ms=_BACKOFF_MS,
                bootstrap_timeout_ms=int(CONNECT_TIMEOUT_S * 1000),
                request_timeout_ms=int(RETRY_TIMEOUT_S * 1000),
                metrics_enabled=False,
                **for_kafka_python(self._security),
            )

    def _connected(self, doing: str) -> Any:
        if self._admin is None:
            self._probe()
            with self._reasoned(doing):
                self._admin = _opened(
                    KafkaAdminClient,
                    bootstrap_servers=self.address,
                    bootstrap_timeout_ms=int(CONNECT_TIMEOUT_S * 1000),
                    request_timeout_ms=int(RETRY_TIMEOUT_S * 1000),
                    **for_kafka_python(self._security),
                )
        return self._admin

    @contextmanager
    def _reasoned(self, doing: str) -> Iterator[None]:
        """Kafka-python raises a bare timeout whatever the broker refused; librdkafka says it."""
        try:
            yield
        except kafka_errors.KafkaTimeoutError:
            refusal = why_refused(self.address, self._security)
            if refusal is None:
                raise
            message = f"Kafka at {self.address}: {doing}: {refusal.said}"
            kind = LogError if refusal.for_good else RetryableError
            raise kind(message, refusal.hint) from None

    def _probe(self) -> None:
        """A plain connection first: it tells the reason at once, and leaves no thread behind."""
        reasons = []
        for server in self.address.split(","):
            host, _, port = server.strip().rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
                return
            except ValueError:
                raise LogError(
                    f"kafka.bootstrap_servers: {server.strip()!r} is not HOST:PORT"
                ) from None
            except OSError as error:
                reasons.append(error.strerror or str(error))
        raise RetryableError(
            f"cannot connect to Kafka at {self.address}: {'; '.join(reasons)}",
            "check that Kafka is running, and kafka.bootstrap_servers",
        )

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """Turn kafka-python's errors inside the block into ours."""
        try:
            with _named():
                yield
        except (kafka_errors.KafkaError, OSError) as error:
            raise self.error(doing, error) from error

    def error(self, doing: str, error: Exception) -> HeadwaterError:
        """One of our errors for one of theirs."""
        # Kafka-python's own text quotes whole requests: the error's description is enough.
        said = (getattr(error, "description", "") or type(error).__name__).rstrip(".")
        message = f"Kafka at {self.address}: {doing}: {said}"
        if isinstance(error, kafka_errors.OffsetOutOfRangeError):
            return LogError(
                message, "rebuild the views that read from there: retention has deleted the records"
            )
        if isinstance(error, kafka_errors.AuthorizationError):
            return LogError(message, "grant this client access in Kafka's ACLs")
        if isinstance(error, kafka_errors.UnknownTopicOrPartitionError):
            return LogError(message, "run `headwater init`, which creates the topics")
        if isinstance(error, kafka_errors.UnknownMemberIdError):
            return RetryableError(message, "stop the consumer that is in the group")
        if isinstance(error, (*_PASSING, OSError)):
            return RetryableError(message, "check that the brokers are up and reachable from here")
        return LogError(message)


def _opened(kind: Any, **settings: Any) -> Any:
    """A client. One that cannot be opened would leave its thread, and the sockets of that."""
    made: list[Any] = []

    def client(**configured: Any) -> Any:
        made.append(KafkaNetClient(**configured))
        return made[-1]

    try:
        return kind(kafka_client=client, proxy_url=DIRECT, **settings)
    except BaseException:
        for one in made:
            one.close()
        raise


@contextmanager
def _named() -> Iterator[None]:
    """Give what the client raises without a class one of its own classes."""
    try:
        yield
    except RuntimeError as error:
        if (kind := _NAMELESS.get(str(error))) is None:
            raise
        raise kind() from error
