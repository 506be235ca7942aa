"""A mirror: a table of the source as the state database has it, and its DDL. Pure.

Columns have the source's names and types, in the source's order, and behind them the position of
the row's last change. What PostgreSQL does not send, a generated column that is not published, is
computed by the mirror. A domain's column has the domain's base type: its text is the same, and a
constraint that the source adds later does not stop a row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from cdc.events.readers.columns import ColumnKind
from cdc.lsn import Position
from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import identifier
from jobs.state.values.value_forms import (
    Form,
    filled_text,
    form,
    kept_text,
    with_former_labels,
)

MIRROR_SCHEMA, TOMBSTONE_SCHEMA, TYPE_SCHEMA = "mirror", "tombstones", "types"
LSN, ORDINAL = "__lsn", "__ordinal"
RESERVED: Final = frozenset((LSN, ORDINAL))
"""Names that a mirrored table cannot have for its columns."""
NOWHERE: Final = Position(0, 0)
_LONGEST_BYTES: Final = 63
_DIGEST_DIGITS: Final = 12
# Types of which two values that are equal have one text.
_ONE_TEXT: Final = frozenset(
    ("int2", "int4", "int8", "oid", "bool", "uuid", "enum", "date", "time", "timestamp", "bytea")
) | {"timestamptz", "text", "varchar", "name", "inet", "cidr", "macaddr", "macaddr8", "pg_lsn"}


@dataclass(frozen=True, slots=True)
class MirrorColumn:
    """``sql`` is its type in the mirror, with ``typmod``; ``type`` what the source has.

    ``generated`` is the expression that the mirror computes it by; empty for one that events carry.
    ``collation`` is SQL, empty for the default. ``fault`` says why text of it does not compare as
    in the source, ``is_text`` that the state database does not know its type and keeps the text
    that events have: a view may show such a column, and not compute with it.
    """

    name: str
    attnum: int | None
    type: TypeInfo
    typmod: int
    sql: str
    nullable: bool = True
    collation: str = ""
    generated: str = ""
    is_text: bool = False
    fault: str = ""
    equals: str = "="
    """The operator that the mirror's key is compared by."""
    one_text: bool = True
    """Whether values that are equal have one text."""
    missing: str | None = None
    """What rows have in it that were written before the column was added, as text."""
    treatment: str = ""
    """What is done to its values before they leave the source, as ``<source>.__schemas`` tells it:
    a view may show such a column, and not compute with it."""
    source_oid: int = 0
    source_typmod: int = -1
    """The type that such a column has in the source."""
    former: tuple[tuple[str, str], ...] = ()
    """Of an enum, or an array of one: names that labels had, each with what it is called now."""

    @property
    def quoted(self) -> str:
        return identifier(self.name)

    @property
    def form(self) -> Form:
        """How SQL reads it out of an event."""
        if self.kept_text is not None:
            return Form(self.sql)
        found = form(self.type, self.typmod, self.sql)
        return with_former_labels(found, self.sql, self.former) if self.former else found

    @property
    def kept_text(self) -> Callable[[bytes], bytes] | None:
        """What makes the text that the mirror keeps of PostgreSQL's, where they differ."""
        return kept_text(self.type) if self.is_text else None

    @property
    def filled_text(self) -> Callable[[bytes], bytes] | None:
        """What makes the text that the mirror has of the source's, where events have another
        one."""
        if self.treatment:
            return None
        return self.kept_text if self.is_text else filled_text(self.type)

    @property
    def declaration(self) -> str:
        collate = f" collate {self.collation}" if self.collation else ""
        computed = f" generated always as ({self.generated}) stored" if self.generated else ""
        return f"{self.quoted} {self.sql}{collate}{computed}"


def column_kind(column: MirrorColumn) -> ColumnKind:
    """What decides how events write a column's values."""
    element = column.type.element
    return ColumnKind(
        column.type.base,
        column.type.kind,
        column.typmod,
        element.base if element else None,
        column.treatment,
        element_typmod=element.typmod if element else -1,
    )


@dataclass(frozen=True, slots=True)
class MirrorTable:
    """One version of a mirror; ``schema_id`` is the version of the table that it has the columns
    of. ``key`` names the columns of the event key, in its order; it is never empty."""

    schema: str
    name: str
    oid: int
    schema_id: str
    columns: tuple[MirrorColumn, ...]
    key: tuple[str, ...]
    partitioned: bool = False
    left_out: tuple[tuple[str, str], ...] = ()
    """Columns of the table that the mirror does not have, each with the reason."""
    highest: int = 0
    """The highest ``attnum`` that any column of the table had when it was filled."""
    files: str = ""
    """The ``relfilenode`` of the table, or of its partitions, when it was filled: as long as these
    are the same, nothing has rewritten its rows."""
    versions: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    """The versions that it had the columns of, by ``schema_id``: what each called its columns, and
    their ``attnum``."""
    read_lsn: int = 0
    """Where the source's WAL stood when its columns were read from the catalog to be followed; 0
    for one that has them by a fill, or by a description of capture's."""

    @property
    def label(self) -> str:
        """``schema.table``, for messages and as views name it."""
        return f"{self.schema}.{self.name}"

    @property
    def relation_name(self) -> str:
        """The name of its table in the schema ``mirror``."""
        return one_identifier(self.schema, self.name)

    @property
    def relation(self) -> str:
        """Its table, as SQL."""
        return f"{MIRROR_SCHEMA}.{identifier(self.relation_name)}"

    @property
    def tombstones(self) -> str:
        """The table of the keys that were deleted, as SQL."""
        return f"{TOMBSTONE_SCHEMA}.{identifier(self.relation_name)}"

    @property
    def stored(self) -> tuple[MirrorColumn, ...]:
        """The columns that events carry."""
        return tuple(column for column in self.columns if not column.generated)

    @property
    def key_columns(self) -> tuple[MirrorColumn, ...]:
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.key)

    @property
    def may_lack_key(self) -> bool:
        """Whether a row's key can be NULL: of ``source.keys``, which promises too much then."""
        return any(column.nullable for column in self.key_columns)

    @property
    def one_text_a_key(self) -> bool:
        """Whether a key has one text in events, so that two records are of one key only if their
        keys are the same bytes."""
        return all(column.one_text for column in self.key_columns)

    def column(self, name: str) -> MirrorColumn | None:
        return next((column for column in self.columns if column.name == name), None)


def one_identifier(schema: str, name: str) -> str:
    """``schema.name`` as one name; a digest stands for the end of what is too long."""
    whole = f"{schema}.{name}"
    if len(whole.encode()) <= _LONGEST_BYTES:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_DIGITS]
    room = _LONGEST_BYTES - _DIGEST_DIGITS - 1
    return f"{whole.encode()[:room].decode(errors='ignore')}~{digest}"


def has_one_text(type: TypeInfo, typmod: int) -> bool:
    """Whether equal values of the type have one text (of a deterministic collation)."""
    if type.kind in ("composite", "range", "multirange") or type.element is not None:
        return False
    return type.base in _ONE_TEXT or (type.base == "numeric" and typmod != -1)


def create_sql(table: MirrorTable, name: str) -> str:
    """The statement that makes the table ``name`` (SQL), without its key."""
    columns = [column.declaration for column in table.columns]
    position = [f"{LSN} bigint not null", f"{ORDINAL} bigint not null"]
    # Room in each page keeps a row's new version there, so that no index changes with it.
    return f"create table {name} ({', '.join([*columns, *position])}) with (fillfactor = 85)"


def key_sql(table: MirrorTable, name: str) -> str:
    """The statement that gives the table ``name`` (SQL) its key."""
    key = ", ".join(column.quoted for column in table.key_columns)
    return f"alter table {name} add primary key ({key})"


def tombstones_sql(table: MirrorTable) -> tuple[str, ...]:
    """The statements that make its table of deleted keys anew."""
    columns = [f"{one.declaration} not null" for one in table.key_columns]
    names = ", ".join(column.quoted for column in table.key_columns)
    rest = f"{LSN} bigint not null, {ORDINAL} bigint not null, deleted_at timestamptz not null"
    return (
        f"drop table if exists {table.tombstones}",
        f"create table {table.tombstones} ({', '.join(columns)}, {rest}, primary key ({names}))",
        f"create index on {table.tombstones} using brin (deleted_at)",
    )


def table_json(table: MirrorTable) -> dict[str, Any]:
    """What ``headwater.mirrors`` keeps of the columns, and of what they were."""
    columns = [asdict(column) | {"type": _type_json(column.type)} for column in table.columns]
    for column in columns:
        del column["former"]  # the enums' own comments have it
    versions = {schema_id: dict(names) for schema_id, names in table.versions}
    return {
        "columns": columns,
        "highest": table.highest,
        "files": table.files,
        "versions": versions,
        "read_lsn": table.read_lsn,
    }


def with_columns(table: MirrorTable, found: Mapping[str, Any]) -> MirrorTable:
    """The table with what ``table_json`` has kept."""
    columns = (column | {"type": _type(column["type"])} for column in found["columns"])
    versions = ((schema_id, tuple(names.items())) for schema_id, names in found["versions"].items())
    return replace(
        table,
        columns=tuple(MirrorColumn(**column) for column in columns),
        highest=found["highest"],
        files=found["files"],
        versions=tuple(versions),
        read_lsn=found.get("read_lsn", 0),
    )


def with_former(
    table: MirrorTable, former: Mapping[str, tuple[tuple[str, str], ...]]
) -> MirrorTable:
    """The table with the names that labels of its enums had; ``former`` is by types, as SQL."""
    columns = (
        replace(one, former=former.get(one.sql.removesuffix("[]"), ())) for one in table.columns
    )
    return replace(table, columns=tuple(columns))


def _type_json(type: TypeInfo) -> dict[str, Any]:
    return type._asdict() | {"element": type.element and _type_json(type.element)}


def _type(found: Mapping[str, Any]) -> TypeInfo:
    element = found["element"]
    return TypeInfo(**dict(found) | {"element": _type(element) if element else None})


def has_only_more(before: MirrorTable, after: MirrorTable) -> bool:
    """Whether a version of a mirror has the columns of another one and some more, which are NULL in
    the rows that were there."""
    held = {column.name: column for column in before.columns}
    kept = [column for column in after.columns if column.name in held]
    new = [column for column in after.columns if column.name not in held]
    return (
        (before.oid, before.key) == (after.oid, after.key)
        and [held[column.name] for column in kept] == kept
        and len(kept) == len(held)
        and not any(column.missing is not None or column.generated for column in new)
    )
