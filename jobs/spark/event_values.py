"""From the text an event carries to a Spark value of the column's type, exactly or not at all.

Forms are Debezium's (``docs/events.md``): ``2024-02-29Z``, ``2024-02-29T12:00:00Z``, base64,
decimal strings. What a type cannot hold (an infinite date, a numeric NaN) raises, naming the
view, the column and the record; it never becomes NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc.events.codes import PLACEHOLDER
from jobs.spark.faults import UNFIT_VALUE, fault
from views.table_versions import TableColumn, TableVersion
from views.types import INTEGERS, STRINGS, PgType

# Spark would refuse strings of more than 20 million characters, which a Kafka record may hold.
JSON_OPTIONS = {"maxStringLen": str(2**31 - 1)}
_TEXT = ("text", "varchar")
# Types whose events carry what a cast to text gives: not bpchar, inet, interval or time.
_AS_TEXT = {*STRINGS, *INTEGERS, "oid", "uuid", "enum", "json", "jsonb"}
_SAME = {("float4", "float8"), ("oid", "int8"), ("text", "json"), ("varchar", "json")}
# The last day that Arrow writes as text; delta-rs ends at 262142. PostgreSQL has later ones.
_LAST_DAY = "+32767-12-31"
_LAST = {
    "date": _LAST_DAY,
    **dict.fromkeys(("timestamp", "timestamp_ntz"), f"{_LAST_DAY}T23:59:59.999999"),
}
# Types whose values never leave the row: TOAST cannot leave them out.
_INLINE = {*INTEGERS, "oid", "float4", "float8", "bool", "date", "timestamp", "timestamptz", "uuid"}


def toastable(kind: PgType) -> bool:
    """Whether an UPDATE may carry the placeholder instead of the value."""
    return kind.name not in _INLINE


def parsed(text: Column, kind: PgType) -> Column:
    """The value, or NULL for text that the type cannot hold."""
    target = kind.spark
    if target == "string":
        return text
    if kind.name == "bytea":
        return F.unbase64(text)
    if target not in _LAST:
        return text.try_cast(target)
    if target != "timestamp":
        text = F.rtrim(text, F.lit("Z"))
    # A year of four digits is not compared: Spark would read the text once more for that.
    value, usual = text.try_cast(target), text.substr(5, 1) == "-"
    return F.when(usual | (value <= F.lit(_LAST[target]).cast(target)), value)


def checked(text: Column, kind: PgType, otherwise: Column) -> Column:
    """The value; NULL only for NULL. ``otherwise`` raises."""
    if kind.name == "array":
        element = _element(kind)
        # Arrays in arrays would be taken for the text of an element.
        items = F.when(~text.startswith("[["), F.from_json(text, "array<string>", JSON_OPTIONS))
        value = F.transform(items, lambda item: checked(item, element, otherwise))
        return F.when(text.isNotNull(), F.coalesce(value, otherwise.cast(kind.spark)))
    if kind.spark == "string":
        return text
    value = F.coalesce(parsed(text, kind), otherwise.cast(kind.spark))
    return F.when(text.isNotNull(), value)


def left_out(change: Column, name: str) -> Column:
    """Whether a placeholder stands for a value that the change left alone; never NULL.

    ``change`` is a struct as ``jobs.without_mirrors.fold`` makes it. ``unchanged`` names those
    columns; events written before there was such a list have none, and every placeholder of theirs
    counts.
    """
    placeholder = change["partial"] & change["image"][name].eqNullSafe(F.lit(PLACEHOLDER))
    listed = F.coalesce(F.array_contains(change["unchanged"], name), F.lit(True))
    return placeholder & listed


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Reads one column out of row images written under several versions of the table.

    ``event`` is a struct as ``jobs.without_mirrors.fold`` makes it: ``image`` (a struct of texts),
    ``schema_id`` (names the version), ``filled`` (those of single values), ``record``
    (``topic-partition-offset``), ``partial`` (has placeholders) and ``unchanged`` (for these
    columns).
    """

    view: str
    versions: Mapping[str, TableVersion]
    event: Column

    @property
    def record(self) -> Column:
        return self.event["record"]

    @property
    def partial(self) -> Column:
        return self.event["partial"]

    def text(self, name: str) -> Column:
        """The value as the event carries it; NULL when the version has no such column."""
        return self.event["image"][name]

    def left_out(self, name: str) -> Column:
        """Whether a placeholder stands for the value; never NULL."""
        held = self.event["filled"][name]
        return left_out(self.event, name) & held.isNull()

    def value(self, name: str, kind: PgType) -> Column:
        """The value as the newest version's type."""
        by_type: dict[PgType, list[str]] = {}
        for schema_id, version in self.versions.items():
            column = version.column(name)
            if column is not None and column.type != kind:
                by_type.setdefault(column.type, []).append(schema_id)
        result = checked(self._sent(name, kind), kind, self._unfit(name, kind))
        written = F.coalesce(self.event["filled"][name], self.event["schema_id"])
        for old, ids in by_type.items():
            older = self._older(name, old, kind)
            result = F.when(written.isin(ids), older).otherwise(result)
        return result

    def _sent(self, name: str, kind: PgType) -> Column:
        """The text, NULL where none could be sent.

        A row that was gone by the time capture asked for its values has the placeholder in an
        INSERT. A later event deletes it, so that it only has to pass; as text it may be the value.
        """
        text = self.text(name)
        return F.nullif(text, F.lit(PLACEHOLDER)) if _replaced(kind) else text

    def _older(self, name: str, old: PgType, kind: PgType) -> Column:
        """A value written before the column's type changed."""
        text = self._sent(name, old)
        if not widens(old, kind):
            message = f"view {self.view}: column {name!r} was {old} and is {kind} now"
            hint = "take a new snapshot of the table and rebuild the view"
            raising = fault("ViewError", message, self.record, hint).cast(kind.spark)
            return F.when(text.isNotNull(), raising)
        value = checked(text, old, self._unfit(name, old))
        return value if old.spark == kind.spark else value.cast(kind.spark)

    def _unfit(self, name: str, kind: PgType) -> Column:
        message = f"view {self.view}: column {name!r}: a value that {kind.spark} cannot hold"
        hint = "leave the column out, or turn it into text in the source"
        return fault(UNFIT_VALUE, message, self.record, hint)


def _replaced(kind: PgType) -> bool:
    """Whether a placeholder cannot be taken for a value of the type."""
    return toastable(kind) and kind.spark != "string"


def widens(old: PgType, new: PgType) -> bool:
    """Whether every old value has one and the same meaning, and text, under the new type."""
    if old.name == new.name == "array":
        return widens(_element(old), _element(new))
    if old.name in INTEGERS and new.name in INTEGERS:
        return INTEGERS.index(old.name) <= INTEGERS.index(new.name)
    if old.name == new.name == "numeric":
        return _has_room(old, new)
    if new.name in _TEXT:
        return old.name in _AS_TEXT
    return (old.name, new.name) in _SAME


def keeps_values(old: TableColumn, new: TableColumn) -> bool:
    """Whether the rows that were there when a column got its new type have the values that events
    had told of them, and the text."""
    return old.keeps(new) if old.type == new.type else widens(old.type, new.type)


def _element(kind: PgType) -> PgType:
    return PgType(kind.element, kind.precision, kind.scale)


def _has_room(old: PgType, new: PgType) -> bool:
    """Whether a numeric takes the values of another as they are, whatever the digits shown."""
    if new.precision < 0 or old.precision < 0:
        return new.precision < 0
    return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
