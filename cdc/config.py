"""``headwater.toml``: parsed, completed from the environment and checked whole before any I/O.

Every problem is reported at once, each with its place in the file. ``${NAME}`` in any string is
replaced from the environment; a missing variable is a problem like any other.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cdc.config_faults import Place, place, setting_faults, toml_fault
from cdc.config_values import Name, OpenSearchUrl, Rate, RedisUrl, Servers, Setting, SlotName
from cdc.errors import ConfigError
from cdc.kafka.security import FILES, Security, file_problems, librdkafka_option
from cdc.topics import slot_name

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Section):
    """The database that is captured."""

    name: Name
    dsn: str = Field(min_length=1)
    tables: tuple[str, ...] = Field(min_length=1)
    exclude: tuple[str, ...] = ()
    slot: SlotName = ""
    publication: str = Field(default="", max_length=63)
    failover: bool = False
    keys: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = {}
    """Key columns for tables whose replica identity is FULL, by ``schema.table``."""

    @property
    def slot_name(self) -> str:
        return self.slot or slot_name(self.name)

    @property
    def publication_name(self) -> str:
        return self.publication or slot_name(self.name)


class Kafka(Security):
    """Where events go. ``producer`` holds librdkafka settings that are passed through."""

    bootstrap_servers: Servers = Field(min_length=1)
    partitions: int = Field(default=2, ge=1, le=1000)
    replication_factor: int = Field(default=-1, ge=-1)
    topic: dict[str, str] = Field(default={})
    producer: dict[str, Setting] = Field(default={})

    @model_validator(mode="after")
    def _security_is_every_client_s(self) -> Kafka:
        for setting in self.producer:
            if option := librdkafka_option(setting):
                raise ValueError(f"producer.{setting}: set kafka.{option}, for every client")
        return self


class Capture(_Section):
    """How the capture process paces itself."""

    feedback_s: float = Field(default=1.0, gt=0, le=30)
    progress_ms: int = Field(default=200, ge=10)
    queue_mb: int = Field(default=10, ge=8)
    reconnect_s: float = Field(default=60.0, gt=0)
    heartbeat_s: float = Field(default=10.0, ge=0, le=3600)
    silence_s: float = Field(default=60.0, gt=0)
    wal_warn_mb: int = Field(default=4096, ge=1)
    wal_limit_mb: int | None = Field(default=None, ge=1)
    wal_limit_action: Literal["warn", "stop", "drop"] = "warn"
    disk_free_mb: int = Field(default=1024, ge=0)
    transaction_metadata: bool = False
    oversized: Literal["stop", "dead_letter"] = "stop"
    signals: tuple[Literal["source", "kafka"], ...] = ("source",)

    @model_validator(mode="after")
    def _silence_is_longer_than_a_question(self) -> Capture:
        if self.silence_s < 2 * self.feedback_s:
            raise ValueError(
                f"silence_s: the server is asked each feedback_s = {self.feedback_s:g}: "
                "set at least twice that"
            )
        return self


class Snapshot(_Section):
    """How snapshots read the source. ``rate`` holds for those on demand, all workers together."""

    workers: int = Field(default=1, ge=1, le=64)
    rate: Rate = "32 MB/s"
    chunk_mb: float = Field(default=64.0, gt=0)
    max_age_s: float = Field(default=1800.0, gt=0)
    slot_timeout_s: float = Field(default=300.0, gt=0)


class OpenSearch(_Section):
    kind: Literal["opensearch"]
    url: OpenSearchUrl
    user: str = ""
    password: str = Field(default="", repr=False)
    verify_certs: bool = True


class Redis(_Section):
    kind: Literal["redis"]
    url: RedisUrl


class Delta(_Section):
    kind: Literal["delta"]
    path: str


class Postgres(_Section):
    """A PostgreSQL that views are kept in: another one than the source, or the same."""

    kind: Literal["postgres"]
    dsn: str = Field(min_length=1, repr=False)
    target_schema: str = Field(default="public", min_length=1, max_length=63)


Store = Annotated[OpenSearch | Redis | Delta | Postgres, Field(discriminator="kind")]


class View(_Section):
    """A derived store declared in SQL."""

    store: str
    key: tuple[str, ...] = Field(min_length=1)
    sql: str = Field(min_length=1)
    mapping: dict[str, dict[str, Any]] = {}
    """Of an OpenSearch index: fields by column, over those that follow from the types."""
    settings: dict[str, Any] = {}
    """Of an OpenSearch index that people read."""


class Apply(_Section):
    """How views are maintained by Spark."""

    state: str = "./.headwater/views"
    master: str = "local[*]"
    max_offsets_per_trigger: int = Field(default=200_000, ge=1)
    retry_s: float = Field(default=60.0, ge=0)
    keep_generations: int = Field(default=1, ge=0)
    keep_days: float = Field(default=7.0, ge=0)
    dlq_limit: int = Field(default=100, ge=0, le=1000)
    spark: dict[str, str] = {}


_OF_KIND = {"mapping": "opensearch", "settings": "opensearch"}
"""Settings of a view that one kind of store has."""
_MODELS: dict[str, type[BaseModel]] = {
    "source": Source,
    "kafka": Kafka,
    "capture": Capture,
    "snapshot": Snapshot,
    "opensearch": OpenSearch,
    "redis": Redis,
    "delta": Delta,
    "postgres": Postgres,
    "views": View,
    "apply": Apply,
}


class Config(_Section):
    """The whole file."""

    source: Source
    kafka: Kafka
    capture: Capture = Capture()
    snapshot: Snapshot = Snapshot()
    stores: dict[Name, Store] = {}
    views: dict[Name, View] = {}
    apply: Apply = Apply()

    @model_validator(mode="after")
    def _views_name_stores(self) -> Config:
        for name, view in self.views.items():
            if view.store not in self.stores:
                known = ", ".join(sorted(self.stores)) or "none"
                raise ValueError(
                    f"views.{name}.store: no store {view.store!r}; [stores] has: {known}"
                )
            kind = self.stores[view.store].kind
            for setting, wanted in _OF_KIND.items():
                if kind != wanted and getattr(view, setting):
                    raise ValueError(
                        f"views.{name}.{setting}: its store is {kind}: only {wanted} has it"
                    )
        return self


_MODELS[""] = Config  # the whole file's


def load_config(path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Read and check a file. Relative paths in it are taken from the file's folder.

    Raises ``ConfigError`` that lists every problem.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark in front
        raw = tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file", "write one or name it with --config FILE"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder", "name a file with --config FILE") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "make it readable") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line}: not UTF-8", "save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {toml_fault(error, text)}") from None
    return parse_config(raw, environ, base=path.resolve().parent, name=str(path))


def parse_config(
    raw: dict[str, Any], environ: Mapping[str, str], base: Path, name: str = "headwater.toml"
) -> Config:
    """Check an already parsed document; see ``load_config``."""
    missing: list[tuple[Place, str]] = []
    filled = _expand(raw, environ, (), missing)
    problems = [
        f"{place(where)}: environment variable {variable} is not set: export it"
        for where, variable in missing
    ]
    unfilled = {where for where, _ in missing}
    try:
        config = Config.model_validate(filled)
    except ValidationError as error:
        problems += setting_faults(error.errors(), _MODELS, unfilled)
    if problems:
        raise ConfigError("\n".join(f"{name}: {problem}" for problem in problems))
    anchored = _anchor(config, base)
    if problems := file_problems(anchored.kafka):
        raise ConfigError("\n".join(f"{name}: {problem}" for problem in problems))
    return anchored


def _expand(
    node: Any, environ: Mapping[str, str], at: Place, missing: list[tuple[Place, str]]
) -> Any:
    """``node`` with the variables in its texts replaced; those without a value go to ``missing``,
    with their place."""
    if isinstance(node, dict):
        return {k: _expand(v, environ, (*at, k), missing) for k, v in node.items()}
    if isinstance(node, list):
        return [_expand(v, environ, (*at, i), missing) for i, v in enumerate(node)]
    if not isinstance(node, str):
        return node
    for variable in _VARIABLE.findall(node):
        if variable not in environ:
            missing.append((at, variable))
    return _VARIABLE.sub(lambda match: environ.get(match[1], match[0]), node)


def _anchor(config: Config, base: Path) -> Config:
    """Relative paths become absolute, so that commands agree wherever they are started."""

    def absolute(path: str) -> str:
        return path if "://" in path else str((base / path).resolve())

    stores: dict[str, Any] = {
        name: store.model_copy(update={"path": absolute(store.path)})
        if isinstance(store, Delta)
        else store
        for name, store in config.stores.items()
    }
    apply = config.apply.model_copy(update={"state": absolute(config.apply.state)})
    files = {name: getattr(config.kafka, name) for name in FILES}
    kafka = config.kafka.model_copy(update={k: absolute(v) for k, v in files.items() if v})
    return config.model_copy(update={"kafka": kafka, "stores": stores, "apply": apply})
