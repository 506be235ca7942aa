"""Mirrors filled from a snapshot of their tables, and the view that they make."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.lsn import Position
from jobs.columns import columns_of
from jobs.loading import loaded_rows
from jobs.mirrors.anew import controls
from jobs.mirrors.attempts import Attempts, write_attempts
from jobs.mirrors.models import models_of, open_mirrors
from jobs.mirrors.queries import Maintenance
from jobs.mirrors.tables import remember
from jobs.sinks.schema import quoted
from jobs.versions import Versions
from jobs.view_state import Beginning
from views.maintained import MaintainedView


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
