"""The sections of ``headwater.toml`` about what is captured, how, and where events go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from cdc.config.apply import Apply as Apply
from cdc.config.apply import Table as Table
from cdc.config.columns import ColumnKey, ColumnRule, Rule
from cdc.config.routes import RouteSettings
from cdc.config.stores import Delta as Delta
from cdc.config.stores import OpenSearch as OpenSearch
from cdc.config.stores import Postgres as Postgres
from cdc.config.stores import Redis as Redis
from cdc.config.stores import Section
from cdc.config.stores import Store as Store
from cdc.config.stores import View as View
from cdc.config.values import EmitTopic, Name, Rate, Servers, Setting, SlotName
from cdc.errors import UsageError
from cdc.kafka.security import Security, librdkafka_option
from cdc.protocol.treatment import KEYED, Treatment
from cdc.routes.faults import content_fault
from cdc.routes.route import Place, Route, place_of, variables
from cdc.topics import slot_name

_KEYS = {"hash": ("hash_keys", "hashed"), "encrypt": ("encryption_keys", "encrypted")}
"""The setting that has a treatment's keys, and what it does, by kind."""


class Source(Section):
    """The database that is captured."""

    name: Name
    dsn: str = Field(min_length=1, repr=False)
    events: Literal["headwater", "debezium"] = "headwater"
    """Who fills the topics: ``headwater capture``, or a connector of Debezium."""
    defaults_for_null: bool = True
    """Whether the connector's converter writes a column's default in place of NULL."""
    tables: tuple[str, ...] = Field(min_length=1)
    exclude: tuple[str, ...] = ()
    slot: SlotName = ""
    publication: str = Field(default="", max_length=63)
    failover: bool = False
    keys: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = Field(default={})
    """Key columns for tables whose replica identity is FULL, by ``schema.table``."""
    columns: dict[str, Annotated[dict[str, Rule], Field(min_length=1)]] = Field(default={})
    """What becomes of columns that must not leave the source as they are, by ``schema.table``."""
    routes: tuple[RouteSettings, ...] = ()
    """Which topic tables go to, other than ``<source>.<schema>.<table>``."""
    hash_keys: dict[Name, ColumnKey] = Field(default={}, repr=False)
    """What columns are hashed with, by name, the newest one last."""
    encryption_keys: dict[Name, ColumnKey] = Field(default={}, repr=False)
    """What columns are encrypted with, by name, the newest one last."""

    @model_validator(mode="after")
    def _treatments_have_keys(self) -> Source:
        for label, rules in self.columns.items():
            for name, rule in rules.items():
                if rule.kind not in KEYED:
                    continue
                setting, done = _KEYS[rule.kind]
                keys = self._keys(rule.kind)
                if not keys:
                    variable = setting.removesuffix("s").upper()
                    raise ValueError(
                        f"{setting}: {label}.{name} is {done}, and there is no key: add {setting} "
                        f'= {{ "1" = "${{{variable}}}" }}'
                    )
                if rule.argument and rule.argument not in keys:
                    raise ValueError(
                        f"{setting}: {label}.{name} is {done} with {rule.argument!r}: known are "
                        f"{', '.join(keys)}"
                    )
        return self

    @model_validator(mode="after")
    def _no_two_routes_have_one_topic(self) -> Source:
        numbers = dict[str, int]()
        named = [(n, one.template) for n, one in enumerate(self.routes, 1)]
        named += [(n, one.rows_topic) for n, one in enumerate(self.routes, 1) if one.rows_topic]
        for number, topic in named:
            other = numbers.setdefault(topic, number)
            if other != number and set(variables(topic)) <= {"source"}:
                first, second = sorted((other, number))
                raise ValueError(
                    f"routes: {first} and {second} have the topic {topic}: name all its tables in "
                    "one of them"
                )
        return self

    @property
    def routing(self) -> tuple[Route, ...]:
        """``routes``, with what they leave out."""
        return tuple(one.route for one in self.routes)

    def place(self, schema: str, table: str) -> Place:
        """Where a table's events are."""
        return place_of(self.name, self.routing, schema, table)

    def topic(self, schema: str, table: str) -> str:
        """The topic of a table's events."""
        return self.place(schema, table).topic

    def topics(self, tables: Iterable[tuple[str, str]]) -> list[str]:
        """The topics of tables, each once: they may share some, and have some of rows."""
        return list(dict.fromkeys(one for at in tables for one in self.place(*at).topics))

    def rows_topics(self, tables: Iterable[tuple[str, str]]) -> dict[str, str]:
        """The second topics, by ``schema.table``, of those tables that have one."""
        places = {".".join(at): self.place(*at) for at in tables}
        return {label: at.rows_topic for label, at in places.items() if at.rows_topic}

    def is_own(self, topic: str, tables: Iterable[tuple[str, str]]) -> bool:
        """Whether a topic is of this source, by its name or as that of one of some tables. A view
        of another source may have the same name: both have one consumer group then."""
        return topic.startswith(f"{self.name}.") or topic in self.topics(tables)

    def own_topic(self, schema: str, table: str) -> str:
        """The same, for who reads one table's events. Raises ``UsageError`` where others are in
        it, where it has no events, or where keys have a field that is no column."""
        place = self.place(schema, table)
        if fault := content_fault(f"{schema}.{table}", place):
            raise UsageError(*fault)
        if place.shared:
            raise UsageError(
                f"{schema}.{table} is in topic {place.topic}, which may hold several tables "
                f"(route {place.route + 1} of source.routes): only topics of one table can be read",
                "route the table to a topic of its own, or capture it by a second configuration, "
                "with another source.name and slot",
            )
        if place.key_field:
            raise UsageError(
                f"{schema}.{table}: its rows share topic {place.rows_topic} with those of other "
                f"tables (rows_topic of route {place.route + 1} of source.routes), and keys of "
                f"both topics have the field {place.key_field}: only keys without it can be read",
                "put {schema} and {table} into rows_topic, or set distinct_keys = true there if no "
                "two of its tables ever have the same key",
            )
        return place.topic

    def _keys(self, kind: str) -> dict[str, str]:
        return self.hash_keys if kind == "hash" else self.encryption_keys

    def excluded(self, label: str) -> frozenset[str]:
        """The columns of ``schema.table`` that must not leave the source."""
        rules = self.columns.get(label, {})
        return frozenset(name for name, rule in rules.items() if rule.kind == "exclude")

    def is_lifted(self, label: str, name: str) -> bool:
        """Whether a column of ``schema.table`` that was treated is to be published as it is."""
        rule = self.columns.get(label, {}).get(name)
        return rule is not None and rule.kind == "publish"

    @property
    def treated(self) -> dict[str, dict[str, Treatment]]:
        """How columns are treated, by ``schema.table`` and name; of tables with such alone."""
        found = {}
        for label, rules in self.columns.items():
            of = {name: t for name, rule in rules.items() if (t := self._treatment(rule))}
            if of:
                found[label] = of
        return found

    def _treatment(self, rule: ColumnRule) -> Treatment | None:
        if rule.kind == "exclude" or rule.kind == "publish":
            return None
        if rule.kind not in KEYED:
            return Treatment(rule.kind, rule.argument)
        keys = self._keys(rule.kind)
        name = rule.argument or list(keys)[-1]
        return Treatment(rule.kind, name, keys[name].encode())

    @property
    def slot_name(self) -> str:
        return self.slot or ("debezium" if self.of_debezium else slot_name(self.name))

    @property
    def publication_name(self) -> str:
        of_connector = "dbz_publication" if self.of_debezium else slot_name(self.name)
        return self.publication or of_connector

    @property
    def of_debezium(self) -> bool:
        """Whether a connector fills the topics; its slot and publication have other names."""
        return self.events == "debezium"


class Kafka(Security):
    """Where events go. ``producer`` holds librdkafka settings that are passed through."""

    bootstrap_servers: Servers = Field(min_length=1)
    partitions: int = Field(default=2, ge=1, le=1000)
    replication_factor: int = Field(default=-1, ge=-1)
    topic: dict[str, str] = Field(default={})
    producer: dict[str, Setting] = Field(default={}, repr=False)

    @model_validator(mode="after")
    def _security_is_every_client_s(self) -> Kafka:
        for setting in self.producer:
            if option := librdkafka_option(setting):
                raise ValueError(f"producer.{setting}: set kafka.{option}, for every client")
        return self

    @model_validator(mode="after")
    def _topics_take_records_without_a_key(self) -> Kafka:
        if "compact" in self.topic.get("cleanup.policy", ""):
            raise ValueError(
                'topic."cleanup.policy": a compacted topic refuses records without a key (TRUNCATE '
                "events, events of tables without a key), which would stop capture: remove it"
            )
        return self


class Capture(Section):
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
    emit_topics: tuple[EmitTopic, ...] = ()
    """What ``headwater.emit`` may publish to."""
    signals: tuple[Literal["source", "kafka"], ...] = ("source",)

    @model_validator(mode="after")
    def _silence_is_longer_than_a_question(self) -> Capture:
        if self.silence_s < 2 * self.feedback_s:
            raise ValueError(
                f"silence_s: the server is asked each feedback_s = {self.feedback_s:g}: "
                "set at least twice that"
            )
        return self


class Snapshot(Section):
    """How snapshots read the source. ``rate`` holds for those on demand, all workers together."""

    workers: int = Field(default=1, ge=1, le=64)
    rate: Rate = "32 MB/s"
    chunk_mb: float = Field(default=64.0, gt=0)
    max_age_s: float = Field(default=1800.0, gt=0)
    slot_timeout_s: float = Field(default=300.0, gt=0)
