"""Mirrors filled from a snapshot of their tables, and the view that they make."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.lsn import Position
from jobs.delta_engine.mirrors.attempts import Attempts, write_attempts
from jobs.delta_engine.mirrors.mirror_views import models_of, open_mirrors
from jobs.delta_engine.mirrors.table_record import remember
from jobs.delta_engine.queries import Maintenance
from jobs.delta_engine.touched_rows import controls
from jobs.generations.view_state import Beginning
from jobs.sinks.schema_evolution import quoted
from jobs.spark.column_types import columns_of
from jobs.without_mirrors.schemas_topic import Versions
from jobs.without_mirrors.snapshot_rows import loaded_rows
from views.spark.view import MaintainedView


@contextmanager
def filled(
    spark: SparkSession,
    view: MaintainedView,
    versions: Mapping[str, Versions],
    records_of: Callable[[str], DataFrame],
    directory: Path,
    beginning: Beginning,
    clean: bool,
) -> Iterator[DataFrame]:
    """Fill mirrors anew with what ``records_of(table)`` gives; the view's rows, as for a store.

    ``clean``: each row was published once, at one LSN.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    models = models_of(view, versions)
    mirrors = open_mirrors(spark, models, directory)
    for name, mirror in mirrors.items():
        mirror.fill(loaded_rows(models[name], records_of(name), clean))
    remember(directory, view)
    write_attempts(directory, Attempts(lsn=beginning.upto))
    maintenance = Maintenance(view, mirrors, directory)
    with maintenance.relations(spark) as relations:
        rows = maintenance.everything(spark, relations)
        columns = [
            rows[quoted(field.name)].cast(field.dataType).alias(field.name)
            for field in columns_of(view)
        ]
        position = Position(beginning.upto, 0)
        yield rows.select(*columns, *controls(position, None, F.lit(False)))
