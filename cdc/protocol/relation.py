"""What a table looks like to the stream: relations, their columns and their types. Pure.

A ``Relation`` is one version of a table, complete enough to name and to encode its rows. The
Relation message of pgoutput carries names, type OIDs and key flags; type names, nullability and
the primary key of a table with ``REPLICA IDENTITY FULL`` come from the catalog. ``schema_id`` is
a fingerprint of what decides the form of the values, so equal versions have equal ids, whichever
session saw them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from cdc.protocol.treatment import Treatment


class TypeInfo(NamedTuple):
    """A PostgreSQL type, domains resolved down to what decides the form of its values.

    ``kind`` is base, enum, domain, array, composite, range or multirange. ``base`` is the
    ``typname`` of the type under all domains ("enum" for every enum, "array" for arrays).
    ``typmod`` is the domain's own, -1 without one. ``element`` is set for arrays, with the
    delimiter its elements are separated by; ``labels`` are those of an enum, in its order.
    """

    oid: int
    schema: str
    name: str
    kind: str
    base: str
    typmod: int = -1
    element: TypeInfo | None = None
    delimiter: str = ","
    labels: tuple[str, ...] = ()


class Column(NamedTuple):
    """A column as published. ``typmod`` is the column's, or its domain's, -1 without one.

    ``attnum`` is its number in ``pg_attribute``, which it keeps under every name and which no other
    column of the table is ever given; None where that is not certain. ``collation`` is the one that
    its texts compare by, ``schema.name``, where that takes different texts for equal; else empty.
    ``treatment`` is what is done to its values, which are sent in the text of the source's type;
    ``type`` is that of the result then.
    """

    name: str
    type: TypeInfo
    typmod: int
    key: bool
    nullable: bool = True
    attnum: int | None = None
    collation: str = ""
    treatment: Treatment | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """One version of a table.

    ``replica_identity`` is d, n, f or i as in ``pg_class.relreplident``. ``key`` names the columns
    of the event key in key order; it is empty when events of the table have no key.
    """

    oid: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def name(self) -> str:
        """``schema.table``, for messages."""
        return f"{self.schema}.{self.table}"

    def schema_id(self) -> str:
        """16 hex digits over everything but OIDs, attnums and nullability."""
        parts = [_form(column) for column in self.columns]
        document = [self.schema, self.table, self.replica_identity, parts, list(self.key)]
        return hashlib.sha256(json.dumps(document).encode()).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """The JSON object that ``<source>.__schemas`` holds for this version."""
        return {
            "schema_id": self.schema_id(),
            "schema": self.schema,
            "table": self.table,
            "table_oid": self.oid,
            "replica_identity": self.replica_identity,
            "columns": [_describe_column(column, self.key) for column in self.columns],
            "key": list(self.key),
        }


def _form(column: Column) -> list[str | int]:
    kind = column.type
    collation = [column.collation] if column.collation else []
    how = column.treatment
    treatment: list[str | int] = [f"treatment {how}", how.of_name, how.of_typmod] if how else []
    of_element = _element_typmod(kind)
    element = [] if of_element == -1 else [f"element {of_element}"]
    return [
        *(column.name, kind.schema, kind.name, kind.base, column.typmod),
        *(*collation, *treatment, *element),
    ]


def _element_typmod(kind: TypeInfo) -> int:
    """What the elements' type says itself: a domain, or money that has no hundredths."""
    return kind.element.typmod if kind.element else -1


def _describe_column(column: Column, key: tuple[str, ...]) -> dict[str, Any]:
    kind = column.type
    more: dict[str, Any] = {"collation": column.collation} if column.collation else {}
    if column.treatment is not None:
        how = column.treatment
        more |= {"treatment": str(how), "source_oid": how.of_type, "source_typmod": how.of_typmod}
    if (of_element := _element_typmod(kind)) != -1:
        more["element_typmod"] = of_element
    return {
        "name": column.name,
        "attnum": column.attnum,
        "type": kind.name,
        "type_schema": kind.schema,
        "oid": kind.oid,
        "typmod": column.typmod,
        "key": column.name in key,
        "nullable": column.nullable,
        "kind": kind.kind,
        "base": kind.base,
        "element": kind.element.base if kind.element else None,
        **more,
    }
