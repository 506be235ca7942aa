"""Folded changes through a view's SQL: the rows a sink applies. Pure: DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc.events.codes import DELETE, TRUNCATE
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, ORDINAL, UNCHANGED
from jobs.spark.event_values import ColumnReader, toastable
from jobs.spark.faults import UNFIT_VALUE, UNKNOWN_SCHEMA, fault
from jobs.without_mirrors.batch_part import Part
from jobs.without_mirrors.fold import (
    EVENT,
    Step,
    each,
    fold,
    fold_filling,
    parse,
    unfolded,
)
from views.spark.resolution import Output, ResolvedView
from views.table_versions import TableVersion

_KEEP = "__keep"
_NOTHING_UNCHANGED = "cast(array() as array<string>)"


def rows_of(view: ResolvedView, versions: Mapping[str, TableVersion]) -> Step:
    """Records of the table's topic to the rows a sink applies: parse, fold, project."""
    parsed, folded, projected = _parsed(view, versions), fold(), project(view, versions)
    return lambda records: projected(folded(parsed(records)))


def filled_rows_of(view: ResolvedView, versions: Mapping[str, TableVersion]) -> Step:
    """As ``rows_of``, for a batch with gaps, which may be filled from the batch itself."""
    folded, projected = filled_events_of(view, versions), project(view, versions)
    return lambda records: projected(folded(records))


def each_row_of(view: ResolvedView, versions: Mapping[str, TableVersion]) -> Step:
    """As ``rows_of``, a row for each event in place of one for each key."""
    events, projected = each_event_of(view, versions), project(view, versions)
    return lambda records: projected(events(records))


def loaded_rows_of(view: ResolvedView, versions: Mapping[str, TableVersion]) -> Step:
    """As ``rows_of``, for records with a key each of their own."""
    parsed, projected = _parsed(view, versions, streamed=False), project(view, versions)
    single = unfolded()
    return lambda records: projected(single(parsed(records)))


def _parsed(
    view: ResolvedView, versions: Mapping[str, TableVersion], *, streamed: bool = True
) -> Step:
    return parse(columns_read(view), versions, streamed=streamed)


def columns_read(view: ResolvedView) -> list[str]:
    """The table's columns that the view needs, as they are or in expressions."""
    sources = {output.source for output in view.outputs if output.source is not None}
    return sorted(sources | view.computed_from)


def large_columns(columns: Sequence[str], versions: Mapping[str, TableVersion]) -> list[str]:
    """Those of ``columns`` whose value an UPDATE may leave out, under any version of the table."""
    held = {
        column.name
        for version in versions.values()
        for column in version.columns
        if toastable(column.type)
    }
    return [name for name in columns if name in held]


def filled_events_of(
    view: ResolvedView, versions: Mapping[str, TableVersion], part: Part = Part.WHOLE
) -> Step:
    """What ``project`` follows in ``filled_rows_of``, of a part of the batch."""
    columns = columns_read(view)
    large = large_columns(columns, versions)
    parsed, folded = _parsed(view, versions), fold_filling(columns, large) if large else fold()
    return lambda records: folded(part.of(parsed(records)))


def each_event_of(
    view: ResolvedView, versions: Mapping[str, TableVersion], part: Part = Part.WHOLE
) -> Step:
    """What ``project`` follows in ``each_row_of``, of a part of the batch."""
    columns = columns_read(view)
    parsed, one = _parsed(view, versions), each(columns, large_columns(columns, versions))
    return lambda records: one(part.of(parsed(records)))


def project(
    view: ResolvedView,
    versions: Mapping[str, TableVersion],
    told: Sequence[str] = ("op", "gap", "read", "read_lsn", "records", "oldest_us"),
) -> Step:
    """Folded changes to the view's columns, the control columns and ``__event``.

    ``__event`` is ``told`` of it: what the batch's account needs. ``versions`` are all versions of
    the table by ``schema_id``. A row that WHERE does not let through is deleted. Raises, when read:
    ``ViewError`` for a value that cannot be held or an unchanged TOAST value an expression needs,
    ``UnknownSchemaError`` for a version not given.
    """
    event = F.col(EVENT)
    reader = ColumnReader(view.name, versions, event)
    live = ~event["op"].isin(DELETE, TRUNCATE)
    computed = [
        F.when(live, _computed(reader, view, name)).alias(name)
        for name in sorted(view.computed_from)
    ]
    keep = live if view.where is None else live & F.coalesce(F.expr(view.where), F.lit(False))
    outputs = [
        *[_output(reader, view, output).alias(output.name) for output in view.outputs],
        (~F.col(_KEEP)).alias(DELETED),
        _checked_lsn(view, versions, event).alias(COMMIT_LSN),
        event["ordinal"].alias(ORDINAL),
        _unchanged(reader, view).alias(UNCHANGED),
        F.timestamp_micros(event["committed_us"]).alias(COMMITTED_AT),
        F.struct(*(event[name] for name in told)).alias(EVENT),
    ]
    return lambda folded: (
        folded.select(EVENT, *computed).select("*", keep.alias(_KEEP)).select(*outputs)
    )


def _computed(reader: ColumnReader, view: ResolvedView, name: str) -> Column:
    """A column that expressions read: its value has to be there, unless it is still looked for."""
    column = view.table.column(name)
    assert column is not None  # resolve found it
    value = reader.value(name, column.type)
    if not toastable(column.type):
        return value
    message = (
        f"view {view.name}: column {name!r} of {view.table.name} is used in an expression, and an "
        f"UPDATE that left it alone does not carry its TOASTed value:"
    )
    hint = (
        f"run `ALTER TABLE {view.table.name} REPLICA IDENTITY FULL`, or select the column as it is"
    )
    missing = fault(UNFIT_VALUE, message, reader.record, hint).cast(column.type.spark)
    gap = F.when(~reader.event["gap"], missing)
    return F.when(reader.left_out(name), gap).otherwise(value)


def _output(reader: ColumnReader, view: ResolvedView, output: Output) -> Column:
    if output.source is None:
        return F.when(F.col(_KEEP), F.expr(output.sql).cast(output.type.spark))
    value = reader.value(output.source, output.type)
    if output.name in view.key:  # a delete has its key too
        return value
    shown = F.col(_KEEP)
    if toastable(output.type):
        shown = shown & ~reader.left_out(output.source)
    return F.when(shown, value)


def _unchanged(reader: ColumnReader, view: ResolvedView) -> Column:
    names = [
        F.when(reader.left_out(output.source), F.lit(output.name))
        for output in view.outputs
        if output.source is not None and output.name not in view.key and toastable(output.type)
    ]
    nothing = F.expr(_NOTHING_UNCHANGED)
    if not names:
        return nothing
    # Interpreted for want of generated code, so only where there is something to name.
    some = F.col(_KEEP) & reader.partial
    return F.when(some, F.array_compact(F.array(*names))).otherwise(nothing)


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
