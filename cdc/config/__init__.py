"""``headwater.toml``: parsed, completed from the environment and checked whole before any I/O.

Every problem is reported at once, each with its place in the file. ``${NAME}`` in any string is
replaced from the environment or a file; a missing variable is a problem like any other.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from cdc.config.alerts import Alerts as Alerts
from cdc.config.alerts import RowAlert as RowAlert
from cdc.config.alerts import refuse_unserved, secret_problems
from cdc.config.apply import Apply as Apply
from cdc.config.apply import Table as Table
from cdc.config.capture import Capture as Capture
from cdc.config.capture import Kafka as Kafka
from cdc.config.capture import Snapshot as Snapshot
from cdc.config.capture import Source as Source
from cdc.config.connector import refuse_without_capture
from cdc.config.contents import refuse_contents_of_routes, refuse_topics_of_any_source
from cdc.config.events import Events as Events
from cdc.config.faults import Place, place, setting_faults, toml_fault
from cdc.config.metrics import Metrics as Metrics
from cdc.config.routes import RouteSettings
from cdc.config.serve import PATHS as SERVE_PATHS
from cdc.config.serve import Serve as Serve
from cdc.config.stores import OF_KIND, Section
from cdc.config.stores import Delta as Delta
from cdc.config.stores import OpenSearch as OpenSearch
from cdc.config.stores import Postgres as Postgres
from cdc.config.stores import Redis as Redis
from cdc.config.stores import Store as Store
from cdc.config.stores import View as View
from cdc.config.values import Name, TableName
from cdc.config.variables import filled
from cdc.config.verify import Verify as Verify
from cdc.errors import ConfigError
from cdc.events.form import Form
from cdc.events.formats.subjects import TOPIC_NAME
from cdc.kafka.security import FILES, file_problems
from cdc.tls import registry_problems, store_problems

_NUMBERS = frozenset(str(number) for number in range(1, 1000))
"""Of generations: nobody builds a view more often. ``orders-2024`` may be beside ``orders``."""


_MODELS: dict[str, type[BaseModel]] = {
    "source": Source,
    "routes": RouteSettings,
    "kafka": Kafka,
    "capture": Capture,
    "events": Events,
    "snapshot": Snapshot,
    "opensearch": OpenSearch,
    "redis": Redis,
    "delta": Delta,
    "postgres": Postgres,
    "views": View,
    "tables": Table,
    "apply": Apply,
    "metrics": Metrics,
    "verify": Verify,
    "alerts": Alerts,
    "alerts.rows": RowAlert,
    "serve": Serve,
}


class Config(Section):
    """The whole file."""

    source: Source
    kafka: Kafka
    capture: Capture = Capture()
    events: Events = Events()
    snapshot: Snapshot = Snapshot()
    stores: dict[Name, Store] = Field(default={})
    views: dict[Name, View] = Field(default={})
    tables: dict[TableName, Table] = Field(default={})
    apply: Apply = Apply()
    metrics: Metrics = Metrics()
    verify: Verify = Verify()
    alerts: Alerts = Alerts()
    serve: Serve = Serve()

    def store(self, name: str) -> Store:
        """Raises ``ConfigError`` without one: a view may have been moved to another one since a
        generation of it was built."""
        if name not in self.stores:
            raise ConfigError(
                f"[stores] has no {name!r}, which a generation of a view is in",
                f"if [stores.{name}] is new, restart `headwater apply`, which reads stores when it "
                "starts; if it was removed, put it back until `headwater view drop` has removed "
                "what is there",
            )
        return self.stores[name]

    @property
    def form(self) -> Form:
        """The form of all topics of the source, and where tables are."""
        return self.events.form_with(self.source.routing)

    def is_mirrored(self, table: str) -> bool:
        """Whether the state database may keep a copy of ``schema.table``."""
        return self.tables.get(table, Table()).mirror

    @model_validator(mode="after")
    def _connectors_have_mirrors(self) -> Config:
        refuse_without_capture(self)
        return self

    @model_validator(mode="after")
    def _registries_tell_tables_apart(self) -> Config:
        """A topic's subject has one type of records."""
        registry = self.events.registry
        if registry is None or registry.strategy != TOPIC_NAME:
            return self
        for number, route in enumerate(self.source.routing, 1):
            if route.shared:
                raise ValueError(
                    "events.registry.subject.name.strategy: a topic of several tables "
                    f"(source.routes, route {number}) has a schema for each: set "
                    '"TopicRecordNameStrategy"'
                )
        return self

    @model_validator(mode="after")
    def _topics_are_of_one_source(self) -> Config:
        """Values that do not name their source cannot tell that a topic is another one's."""
        refuse_topics_of_any_source(self.source.name, self.source.routing, self.events.content)
        return self

    @model_validator(mode="after")
    def _contents_of_routes_can_be(self) -> Config:
        refuse_contents_of_routes(self.source.routes, self.events)
        return self

    @model_validator(mode="after")
    def _views_name_stores(self) -> Config:
        for name, view in self.views.items():
            if view.store not in self.stores:
                known = ", ".join(sorted(self.stores)) or "none"
                raise ValueError(
                    f"views.{name}.store: no store {view.store!r}; [stores] has: {known}"
                )
            if view.change_stream and self.apply.engine != "database":
                raise ValueError(
                    f'views.{name}.change_stream: needs apply.engine = "database", which keeps the '
                    "rows of views"
                )
            kind = self.stores[view.store].kind
            for setting, wanted in OF_KIND.items():
                if kind != wanted and setting in view.model_fields_set:
                    raise ValueError(
                        f"views.{name}.{setting}: its store is {kind}, and only {wanted} has that"
                    )
        kept = self.apply
        refuse_unserved(self.alerts, self.views, kept.keep_generations, kept.keep_days)
        return self

    @model_validator(mode="after")
    def _views_have_names_of_their_own(self) -> Config:
        """In every store, and where the state is: not each has capitals, and in OpenSearch the
        first index of view ``a`` is called as view ``a-1``."""
        views = {name.lower(): name for name in reversed(self.views)}
        for name, view in self.views.items():
            before, _, number = name.lower().rpartition("-")
            if (other := views[name.lower()]) != name:
                raise ValueError(
                    f"views.{name}: is the name of views.{other} in other letters: rename one"
                )
            other = views.get(before, "")
            if other and number in _NUMBERS and self._in_one_cluster(view, self.views[other]):
                raise ValueError(
                    f"views.{name}: is what OpenSearch calls an index of views.{other}: rename one"
                )
        return self

    def _in_one_cluster(self, view: View, other: View) -> bool:
        one, two = self.stores[view.store], self.stores[other.store]
        return isinstance(one, OpenSearch) and isinstance(two, OpenSearch) and one.url == two.url

    @model_validator(mode="after")
    def _kept_generations_can_be_gone_back_to(self) -> Config:
        for name, store in self.stores.items():
            if isinstance(store, Delta) and store.retention_days < self._kept_days:
                raise ValueError(
                    f"stores.{name}.retention_days: is {store.retention_days}, and"
                    f" `headwater view rollback` needs files for apply.keep_days ="
                    f" {self.apply.keep_days:g}: set no less"
                )
        return self

    @property
    def _kept_days(self) -> float:
        return self.apply.keep_days if self.apply.keep_generations else 0.0


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
    document = filled(raw, environ, (), missing)
    problems = [f"{place(where)}: {reason}" for where, reason in missing]
    unfilled = {where for where, _ in missing}
    try:
        config = Config.model_validate(document)
    except ValidationError as error:
        problems += setting_faults(error.errors(), _MODELS, unfilled)
    if problems:
        raise ConfigError("\n".join(f"{name}: {problem}" for problem in problems))
    anchored = _anchor(config, base)
    problems = file_problems(anchored.kafka) + store_problems(anchored.stores)
    problems += registry_problems(anchored.events.registry)
    if problems := problems + secret_problems(anchored.alerts):
        raise ConfigError("\n".join(f"{name}: {problem}" for problem in problems))
    return anchored


def _anchor(config: Config, base: Path) -> Config:
    """Relative paths become absolute, so that commands agree wherever they are started."""

    def absolute(path: str) -> str:
        return path if "://" in path else str((base / path).resolve())

    stores: dict[str, Any] = {}
    for name, store in config.stores.items():
        paths = {field: getattr(store, field, "") for field in ("path", "ssl_ca_location")}
        found = {field: absolute(path) for field, path in paths.items() if path}
        stores[name] = store.model_copy(update=found)
    apply = config.apply.model_copy(update={"state": absolute(config.apply.state)})
    files = {name: getattr(config.kafka, name) for name in FILES}
    kafka = config.kafka.model_copy(update={k: absolute(v) for k, v in files.items() if v})
    alerts = _with_secrets(config.alerts, absolute)
    events, registry = config.events, config.events.registry
    if registry is not None and registry.ssl_ca_location:
        authority = {"ssl_ca_location": absolute(registry.ssl_ca_location)}
        events = events.model_copy(update={"registry": registry.model_copy(update=authority)})
    named = {name: path for name in SERVE_PATHS if (path := getattr(config.serve, name))}
    serve = config.serve.model_copy(update={k: absolute(v) for k, v in named.items()})
    update = {"kafka": kafka, "events": events, "stores": stores, "apply": apply, "alerts": alerts}
    return config.model_copy(update={**update, "serve": serve})


def _with_secrets(alerts: Alerts, absolute: Callable[[str], str]) -> Alerts:
    rows = {
        name: one.model_copy(update={"secret_file": absolute(one.secret_file)})
        if one.secret_file
        else one
        for name, one in alerts.rows.items()
    }
    secret = absolute(alerts.secret_file) if alerts.secret_file else ""
    return alerts.model_copy(update={"secret_file": secret, "rows": rows})
