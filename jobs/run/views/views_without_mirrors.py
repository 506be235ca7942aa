"""Views of one table that has ``mirror = false``. Each has a stream of its own, through Spark
alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from cdc.config import Config
from cdc.errors import HeadwaterError, ViewError
from jobs.without_mirrors.views import apply_views
from views.parse.table_references import tables_read


def is_direct(config: Config, name: str) -> bool:
    """Whether a view is kept so. Raises ``ViewError`` for SQL that does not parse, and for a join
    with a table that has no mirror."""
    view = config.views[name]
    tables = [table.name for table in tables_read(name, view.sql)]
    unmirrored = [table for table in tables if not config.is_mirrored(table)]
    if unmirrored and len(tables) > 1:
        raise ViewError(
            f"view {name} reads {unmirrored[0]} together with other tables, but that table has "
            "mirror = false",
            f'remove mirror = false from [tables."{unmirrored[0]}"], or read that table alone',
        )
    if unmirrored and view.change_stream:
        raise ViewError(
            f"view {name} has change_stream = true, and its table has mirror = false",
            f'remove mirror = false from [tables."{unmirrored[0]}"], or change_stream',
        )
    return bool(unmirrored)


@dataclass(slots=True)
class DirectViews:
    """Those of a process, kept on threads of their own while ``kept`` lasts."""

    spark: SparkSession
    config: Config
    names: Sequence[str]
    available_now: bool
    failed: dict[str, HeadwaterError] = field(default_factory=dict)

    @contextmanager
    def kept(self, stopping: threading.Event) -> Iterator[None]:
        """Keep them until the block ends; of what Kafka holds now, ``available_now``, all."""
        ending = threading.Event()

        def keep() -> None:
            self.failed = apply_views(
                self.spark, self.config, self.names, ending, self.available_now
            )

        thread = threading.Thread(target=keep, name="direct-views", daemon=True)
        if self.names:
            thread.start()
        try:
            yield
            while self.available_now and thread.is_alive() and not stopping.is_set():
                thread.join(0.05)
        finally:
            ending.set()
            while thread.is_alive():
                thread.join(0.05)
