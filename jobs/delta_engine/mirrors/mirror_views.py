"""A mirror is fed like a store: by a view of its table that selects the needed columns."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from cdc.errors import ViewError
from cdc.events.codes import SNAPSHOT, TRUNCATE
from jobs.batch.key_sample import LOGGED, spread
from jobs.delta_engine.mirrors.changes import of_event
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL
from jobs.sinks.schema_evolution import quoted
from jobs.without_mirrors.batch_counts import Account
from jobs.without_mirrors.evaluation import Model
from jobs.without_mirrors.fold import EVENT
from jobs.without_mirrors.schemas_topic import Versions
from views.parse.definition import parse_view
from views.spark.resolution import resolve
from views.spark.view import MaintainedView


def models_of(view: MaintainedView, versions: Mapping[str, Versions]) -> dict[str, Model]:
    """What makes rows of events, by ``schema.table``, as are all ``versions`` of each."""
    found = {}
    for name, sql in view.mirror_sql().items():
        newest = list(versions[name].values())[-1]
        definition = parse_view(view.name, view.definition.store, newest.key, sql)
        found[name] = Model(resolve(definition, newest), versions[name])
    return found


def open_mirrors(
    spark: SparkSession, models: Mapping[str, Model], directory: Path, begun: bool = False
) -> dict[str, Mirror]:
    """The mirrors in a directory, created where they are not there yet.

    Raises ``ViewError`` when one is gone of those that were ``begun``.
    """
    mirrors = {
        name: Mirror(spark, directory / name, model.columns, model.view.key)
        for name, model in models.items()
    }
    for name, mirror in mirrors.items():
        created = mirror.prepare()
        if created and begun:
            view = models[name].view.name
            shutil.rmtree(directory / name)  # it is missed by the next process as well
            raise ViewError(
                f"view {view}: {directory / name}, its mirror of {name}, is gone",
                f"run `headwater view rebuild {view}`",
            )
    return mirrors


def deletions(model: Model, records: DataFrame, keys: DataFrame) -> pa.Table:
    """The rows that ``records`` delete in the end, those of ``keys`` only: where they stand."""
    gone = F.col(DELETED) & ~F.col(EVENT)["op"].isin(SNAPSHOT, TRUNCATE)
    rows = model.rows(records).where(gone)
    return rows.select(*map(quoted, keys.columns), COMMIT_LSN, ORDINAL).join(
        F.broadcast(keys), keys.columns, "left_semi"
    ).toArrow()  # fmt: skip


def folded(model: Model, records: DataFrame) -> pa.Table:
    """The last change of each row, with the values that the batch itself has for it."""
    rows = model.rows(records).toArrow()
    if pc.any(of_event(rows, "gap")).as_py():
        return model.filled_rows(records).toArrow()
    return rows


def nothing(model: Model, records: DataFrame) -> pa.Table:
    """What ``folded`` gives of no records; these are only looked at for their columns."""
    return to_arrow_schema(model.rows(records).schema, timezone="UTC").empty_table()


def account_of(rows: Mapping[str, pa.Table], keys: int) -> Account:
    """What a batch held, of all its tables; ``keys`` of the view it touched."""
    records = changed = 0
    commits: list[int] = []
    for table in rows.values():
        records += pc.sum(of_event(table, "records")).as_py() or 0
        keyed = table.filter(pc.not_equal(of_event(table, "op"), TRUNCATE))
        changed += len(keyed) - (pc.sum(keyed.column(DELETED)).as_py() or 0)
        commits += of_event(keyed, "oldest_us").drop_null().to_pylist()
    return Account(records, keys, changed, 0, None, tuple(spread(commits, LOGGED)))
