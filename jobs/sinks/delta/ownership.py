"""Whose the table is that a view's name leads to: what is somebody else's is neither read, nor
shown, nor replaced, nor deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from cdc.config import Delta
from cdc.errors import ViewError
from jobs.sinks.delta.delta_reader import folder_of, is_local
from jobs.sinks.delta.errors import (
    FOREIGN_FOLDER,
    GENERATION_PROPERTY,
    KEY_PROPERTY,
    is_table,
    live_path,
    table_properties,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = "_delta_log"


def generation_at(spark: SparkSession, view: str, path: str) -> int | None:
    """The generation of a view that a table holds, None if there is none. Raises ``ViewError``
    where something else is."""
    if not is_table(spark, path):
        _refuse_folder(view, path)
        return None
    properties = table_properties(spark, path)
    _refuse_table(view, path, properties)
    return int(properties.get(GENERATION_PROPERTY, 1))


def refuse_taken(config: Delta, view: str) -> None:
    """Raise ``ViewError`` where something else has a view's place, without Spark: on this machine.
    A table that delta-rs cannot read is left to Spark."""
    path = live_path(config, view)
    if not is_local(path):
        return
    if not (folder_of(path) / _LOG).exists():
        _refuse_folder(view, path)
        return
    try:
        properties = DeltaTable(str(folder_of(path))).metadata().configuration
    except (DeltaError, OSError):
        return
    _refuse_table(view, path, properties)


def _refuse_table(view: str, path: str, properties: Mapping[str, str]) -> None:
    if KEY_PROPERTY not in properties:
        raise ViewError(
            f"view {view}: {path} is a Delta table that does not belong to this view",
            "move it away, or give the store another path",
        )


def _refuse_folder(view: str, path: str) -> None:
    """Of a place without a table; what a killed process left of making one is ours."""
    if not is_local(path):
        return
    folder = folder_of(path)
    if folder.is_file() or (folder.is_dir() and {one.name for one in folder.iterdir()} - {_LOG}):
        raise ViewError(f"view {view}: {path} is not a Delta table", FOREIGN_FOLDER)
