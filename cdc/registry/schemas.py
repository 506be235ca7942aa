"""Schemas in the registry: their ids, and by an id the schema that a record was written with.

What was answered once is kept: while the registry is away, records whose schemas are known go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson
import structlog

from cdc.config import Config
from cdc.config.registry import Registry
from cdc.errors import LogError, RetryableError
from cdc.events.formats.avro_reader import avro_reader
from cdc.events.formats.framing import HEAD_BYTES, schema_id_of
from cdc.events.formats.protobuf_reader import protobuf_reader
from cdc.events.formats.subjects import Role, subject
from cdc.events.readers.records import Decode, payload
from cdc.log_events import LogEvent
from cdc.registry.client import Client, RefusedError

_INCOMPATIBLE: Final = 409
_NOT_FOUND: Final = 404
_DENIED: Final = (401, 403)
AVRO: Final = "AVRO"

_READERS: Final = {AVRO: avro_reader, "PROTOBUF": protobuf_reader}
"""Of kinds whose records are no JSON."""

log = structlog.get_logger("registry")
Read = Callable[[bytes], Any]


class Standing(Enum):
    """What a subject has of a schema."""

    KNOWN = "known"
    NEW = "new"
    INCOMPATIBLE = "incompatible"


class Document(NamedTuple):
    """A schema as the registry has it: its kind (``AVRO``, ``JSON``, ``PROTOBUF``) and its text."""

    kind: str
    text: str


NO_DOCUMENTS: Final[Mapping[int, Document]] = MappingProxyType({})


class SchemaRegistry:
    """The registry of one process. Records may be read by several threads. ``documents`` are the
    schemas that are known, by their ids."""

    def __init__(
        self, settings: Registry, documents: Mapping[int, Document] = NO_DOCUMENTS
    ) -> None:
        self._client = Client(settings)
        self._settings = settings
        self._ids: dict[tuple[str, str], int] = {}
        self._documents = dict(documents)
        self._readers: dict[int, Read | None] = {}
        self._asking = Lock()

    def __reduce__(self) -> tuple[type[SchemaRegistry], tuple[Registry, dict[int, Document]]]:
        """Another process has a connection of its own."""
        return SchemaRegistry, (self._settings, self._documents)

    def id_of(self, topic: str, role: Role, record: str, kind: str, document: str) -> int:
        """See ``cdc.events.formats.packing.Registry``."""
        name = subject(self._settings.strategy, topic, role, record)
        known = self._ids.get((name, document))
        if known is None:
            known = self._ids[name, document] = self._asked_id(name, kind, document)
        return known

    def reach(self) -> None:
        """Raises ``RetryableError`` when nobody answers, ``LogError`` for a refusal."""
        try:
            found = self._client.get("subjects")
        except RefusedError as error:
            raise self._refusal("any", error) from None
        if not isinstance(found, list):
            raise self._odd("any")

    def compared(
        self, topic: str, role: Role, record: str, kind: str, document: str
    ) -> tuple[str, Standing, str]:
        """The subject, what it has of a schema, and why that is incompatible; registers nothing.
        Raises as ``id_of`` does."""
        name = subject(self._settings.strategy, topic, role, record)
        body = _body(kind, document)
        try:
            self._client.post(body, "subjects", name)
            return name, Standing.KNOWN, ""
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise self._refusal(name, error) from None
        try:
            of = self._client.post(body, "compatibility", "subjects", name, "versions", "latest")
        except RefusedError as error:
            if error.status == _NOT_FOUND:
                return name, Standing.NEW, ""
            raise self._refusal(name, error) from None
        if of.get("is_compatible", True):
            return name, Standing.NEW, ""
        return name, Standing.INCOMPATIBLE, "; ".join(map(str, of.get("messages") or []))

    def value(self, data: bytes) -> Any:
        """What a key or a value says, as JSON has it: the record may be JSON. Raises ``ValueError``
        for what is neither, ``RetryableError`` while its schema cannot be had."""
        return self._said(data, orjson.loads)

    def payload(self, data: bytes) -> dict[str, Any]:
        """As ``value``, of what is an object; numbers of JSON keep their digits, as
        ``cdc.events.readers.records.payload`` has them. Raises ``TypeError`` for what is none."""
        found = self._said(data, payload)
        if not isinstance(found, dict):
            raise TypeError("no object")
        return found

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _asked_id(self, name: str, kind: str, document: str) -> int:
        body = _body(kind, document)
        path = ["subjects", name] + (["versions"] if self._settings.auto_register else [])
        try:
            found = int(self._client.post(body, *path)["id"])
        except RefusedError as error:
            raise self._refusal(name, error) from None
        except (KeyError, TypeError, ValueError):
            raise self._odd(name) from None
        except RetryableError as error:
            raise RetryableError(f"subject {name}: {error.message}", error.hint) from None
        log.info(LogEvent.SCHEMA_REGISTERED, subject=name, id=found)
        return found

    def _refusal(self, name: str, error: RefusedError) -> LogError:
        url, reason = self._client.url, error.reason
        if error.status in _DENIED:
            return self._denied(f"subject {name}", error)
        if error.status == _NOT_FOUND and self._settings.auto_register:
            return self._odd(name)
        if error.status == _NOT_FOUND:
            return LogError(
                f"subject {name} of the schema registry at {url} lacks the schema: {reason}",
                "register what `headwater check` shows, and start capture again; or "
                "set events.registry.auto.register.schemas = true",
            )
        if error.status == _INCOMPATIBLE:
            latest = self._latest(name)
            return LogError(
                f"the schema of subject {name} is not compatible with its version {latest}, says "
                f"the registry at {url}: {reason}",
                "change the table back, or the subject's compatibility level to NONE in the "
                "registry if its consumers can read both; then start capture again: nothing was "
                "confirmed past this change",
            )
        return LogError(
            f"the schema registry at {url} refuses the schema of subject {name} with "
            f"{error.status}: {reason}",
            "fix what it names; then start capture again: nothing was confirmed past this change",
        )

    def _denied(self, what: str, error: RefusedError) -> LogError:
        return LogError(
            f"the schema registry at {self._client.url} denies access to {what}: {error.reason}",
            "check username and password of [events.registry], and what they may do",
        )

    def _latest(self, name: str) -> Any:
        try:
            return self._client.get("subjects", name, "versions", "latest")["version"]
        except (RefusedError, RetryableError, KeyError, TypeError):
            return "?"

    def _said(self, data: bytes, json: Read) -> Any:
        id_ = schema_id_of(data)
        if id_ is None:
            return json(data)
        if id_ not in self._readers:
            self._readers[id_] = self._reader(id_)
        read = self._readers[id_] or json
        return read(data[HEAD_BYTES:])

    def _reader(self, id_: int) -> Read | None:
        """None of a schema whose records are JSON."""
        with self._asking:
            if (document := self._documents.get(id_)) is None:
                document = self._documents[id_] = self._asked_document(id_)
        reader = _READERS.get(document.kind)
        try:
            return None if reader is None else reader(document.text)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            raise LogError(
                f"schema {id_} of the schema registry at {self._client.url} is not one that "
                "Headwater can read",
                "check events.registry.url, and who else writes into these topics",
            ) from None

    def _asked_document(self, id_: int) -> Document:
        try:
            found = self._client.get("schemas", "ids", str(id_))
        except RefusedError as error:
            if error.status in _DENIED:
                raise self._denied(f"schema {id_}", error) from None
            raise LogError(
                f"the schema registry at {self._client.url} has no schema {id_}, which a record "
                f"in Kafka names: {error.reason}",
                "check events.registry.url: the registry is another one than the topics were "
                "filled with, or lost its schemas",
            ) from None
        try:
            return Document(str(found.get("schemaType", AVRO)), str(found["schema"]))
        except (KeyError, TypeError, AttributeError):
            raise RetryableError(
                f"{self._client.url} does not answer as a schema registry, for schema {id_}",
                "check events.registry.url, and what stands in front of the registry",
            ) from None

    def _odd(self, name: str) -> LogError:
        return LogError(
            f"{self._client.url} does not answer as a schema registry, for subject {name}",
            "check events.registry.url: of Apicurio it ends with /apis/ccompat/v7",
        )


def _body(kind: str, document: str) -> dict[str, Any]:
    """A schema in a request; of Avro the kind is not told."""
    return {"schema": document} | ({} if kind == AVRO else {"schemaType": kind})


def registry_of(config: Config) -> SchemaRegistry | None:
    """The registry of the source's topics; None where they are JSON without one."""
    settings = config.events.registry
    return None if settings is None else SchemaRegistry(settings)


def values_of(registry: SchemaRegistry | None) -> Read:
    """What tells what a value says."""
    return orjson.loads if registry is None else registry.value


def payloads_of(registry: SchemaRegistry | None) -> Decode:
    """What tells which object a key or a value is."""
    return payload if registry is None else registry.payload
