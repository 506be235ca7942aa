"""What a process that keeps views is made of, put together by the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from cdc.config import Config, View
from cdc.events.readers.records import EventReader
from cdc.kafka.broker import Broker
from cdc.metrics.probes import Probes
from jobs.generations.view_state import view_directory
from jobs.run.views.views_without_mirrors import is_direct
from jobs.state.server.database import StateServer


@dataclass(frozen=True, slots=True)
class Parts:
    """``names`` are the views to be kept, all that are declared if it is empty. ``reload`` reads
    the configuration as it is now; stores, Kafka and the source, but for its tables, stay what they
    were at the start.
    ``builds``: views that are declared are built unasked."""

    config: Config
    names: tuple[str, ...]
    reload: Callable[[], Config]
    server: StateServer
    broker: Broker
    spark: SparkSession
    builds: bool = True
    reader: EventReader | None = None
    """Of events that are in another form than the default one."""
    probes: Probes = field(default_factory=Probes)

    @property
    def reaches_tasks(self) -> bool:
        """Whether Spark's tasks reach the state database: ours is on this machine."""
        apply = self.config.apply
        return bool(apply.state_dsn) or apply.master.startswith("local")

    def declared(self) -> dict[str, View]:
        """The views to be kept over mirrors, as they are declared now. Raises ``ConfigError``."""
        config = self.reload()
        return {
            name: view
            for name, view in config.views.items()
            if (not self.names or name in self.names) and not is_direct(config, name)
        }

    def directory(self, view: str) -> Path:
        """Where other commands find what is known of a view."""
        return view_directory(self.config.apply.state, self.config.source.name, view)
