"""What events call the columns of a table, which a view may know by other names. Pure.

The names are told apart by ``schema_id``. Where no version has other names, nothing is added to
what Spark has to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from jobs.spark.event_values import JSON_OPTIONS
from views.table_versions import TableVersion


@dataclass(frozen=True, slots=True)
class Sent:
    """Of all versions of a table, by ``schema_id``; ``id`` is the event's own."""

    versions: Mapping[str, TableVersion]
    id: Column

    def names(self, columns: Sequence[str]) -> list[str]:
        """Every name that an event may have for one of ``columns``."""
        names = dict.fromkeys(columns)
        for version in self._renamed.values():
            names |= dict.fromkeys(sent for name in columns if (sent := version.sent(name)))
        return list(names)

    def image(self, image: Column, columns: Sequence[str]) -> Column:
        """A row image, of ``names(columns)``, as a struct of ``columns``."""
        if not self._renamed:
            return image
        return F.struct(*(self._value(image, name).alias(name) for name in columns))

    def listed(self, names: Column) -> Column:
        """A list of columns under their names in the view; "" for one that it has none for."""
        found = names
        for id_, version in self._renamed.items():
            own = F.transform(names, partial(_own, version))
            found = F.when(self.id == id_, own).otherwise(found)
        return found

    def key(self, key: Column) -> Column:
        """The key of an event, the same for a row under every version of its table."""
        others = [v for v in self._renamed.values() if any(v.sent(p) != p for p in v.key)]
        if not others:
            return key
        parts = list(dict.fromkeys(part for version in others for part in version.key))
        schema = StructType([StructField(name, StringType()) for name in self.names(parts)])
        sent = F.from_json(key, schema, JSON_OPTIONS)
        same = F.to_json(F.struct(*(self._value(sent, part).alias(part) for part in parts)))
        return F.when(key.isNotNull(), same)

    def _value(self, image: Column, name: str) -> Column:
        found = image[name]
        for id_, version in self._renamed.items():
            if (sent := version.sent(name)) != name:
                value = F.lit(None).cast("string") if sent is None else image[sent]
                found = F.when(self.id == id_, value).otherwise(found)
        return found

    @property
    def _renamed(self) -> dict[str, TableVersion]:
        return {id_: one for id_, one in self.versions.items() if one.as_sent is not None}


def _own(version: TableVersion, sent: Column) -> Column:
    """The view's name of a column, from the one that it has in events of a version."""
    found = F.lit("")  # which no column is called
    for column in version.columns:
        found = F.when(sent == F.lit(version.sent(column.name)), column.name).otherwise(found)
    return found
