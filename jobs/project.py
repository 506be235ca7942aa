"""Folded changes through a view's SQL: the rows a sink applies. Pure: DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.faults import UNKNOWN_SCHEMA, fault
from jobs.fold import DELETE, EVENT, TRUNCATE
from jobs.schema import PLACEHOLDER, ColumnReader, toastable
from jobs.sinks import COMMIT_LSN, COMMITTED_AT, DELETED, ORDINAL, UNCHANGED
from views.resolve import Output, ResolvedView
from views.tables import TableVersion

_KEEP = "__keep"


def project(
    folded: DataFrame, view: ResolvedView, versions: Mapping[str, TableVersion]
) -> DataFrame:
    """The view's columns and the control columns, and ``__event`` for the batch's own account.

    ``versions`` are all versions of the table by ``schema_id``. A row that WHERE does not let
    through is deleted. Raises, when read: ``ViewError`` for a value that cannot be held or an
    unchanged TOAST value an expression needs, ``UnknownSchemaError`` for a version not given.
    """
    event = F.col(EVENT)
    reader = ColumnReader(view.name, versions, event["image"], event["schema_id"], event["record"])
    live = ~event["op"].isin(DELETE, TRUNCATE)
    computed = [
        F.when(live, _computed(reader, view, name)).alias(name)
        for name in sorted(view.computed_from)
    ]
    keep = live if view.where is None else live & F.coalesce(F.expr(view.where), F.lit(False))
    rows = folded.select(EVENT, *computed)
    kept = rows.withColumn(_KEEP, keep)
    return kept.select(
        *[_output(reader, view, output).alias(output.name) for output in view.outputs],
        (~F.col(_KEEP)).alias(DELETED),
        _checked_lsn(view, versions, event).alias(COMMIT_LSN),
        event["ordinal"].alias(ORDINAL),
        F.when(F.col(_KEEP), _unchanged(reader, view))
        .otherwise(F.array().cast("array<string>"))
        .alias(UNCHANGED),
        F.timestamp_micros(event["committed_us"]).alias(COMMITTED_AT),
        EVENT,
    )


def _computed(reader: ColumnReader, view: ResolvedView, name: str) -> Column:
    """A column that expressions read: its value has to be there."""
    column = view.table.column(name)
    assert column is not None  # resolve found it
    value = reader.value(name, column.type)
    if not toastable(column.type):
        return value
    message = (
        f"view {view.name}: column {name!r} of {view.table.name} is used in an expression, and an "
        f"UPDATE that left it alone does not carry its TOASTed value:"
    )
    hint = f"ALTER TABLE {view.table.name} REPLICA IDENTITY FULL, or select the column as it is"
    missing = fault("ViewError", message, reader.record, hint).cast(column.type.spark)
    return F.when(reader.text(name) == PLACEHOLDER, missing).otherwise(value)


def _output(reader: ColumnReader, view: ResolvedView, output: Output) -> Column:
    if output.source is None:
        return F.when(F.col(_KEEP), F.expr(output.sql).cast(output.type.spark))
    value = reader.value(output.source, output.type)
    if output.name in view.key:  # a delete has its key too
        return value
    shown = F.col(_KEEP)
    if toastable(output.type):
        shown = shown & ~reader.text(output.source).eqNullSafe(F.lit(PLACEHOLDER))
    return F.when(shown, value)


def _unchanged(reader: ColumnReader, view: ResolvedView) -> Column:
    names = [
        F.when(reader.text(output.source) == PLACEHOLDER, F.lit(output.name))
        for output in view.outputs
        if output.source is not None and output.name not in view.key and toastable(output.type)
    ]
    return F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")


def _checked_lsn(view: ResolvedView, versions: Mapping[str, TableVersion], event: Column) -> Column:
    """The commit LSN, evaluated for every row, so the place of the checks every row needs."""
    lsn = event["commit_lsn"]
    unknown = fault(UNKNOWN_SCHEMA, f"view {view.name}: an unknown schema_id", event["record"])
    checked = F.when(event["schema_id"].isin(list(versions)), lsn).otherwise(unknown.cast("bigint"))
    moved = [id_ for id_, version in versions.items() if set(version.key) != set(view.table.key)]
    if moved:
        message = f"view {view.name}: the key of {view.table.name} was another one"
        hint = "take a new snapshot of the table and rebuild the view"
        raising = fault("ViewError", message, event["record"], hint).cast("bigint")
        checked = F.when(event["schema_id"].isin(moved), raising).otherwise(checked)
    return checked
