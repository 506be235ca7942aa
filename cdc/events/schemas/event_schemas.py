"""The schemas of whole records: keys and events of a table, messages, transactions.

Names are Debezium's, of the table's own topic, also in other topics that hold its rows. The source
block has Headwater's four fields behind Debezium's. In ``before`` every column outside the key may
be null unless the table's replica identity is FULL: PostgreSQL sends the key alone, where Debezium
fills in 0 and "". Where that makes it another schema than ``after``'s, it has a name of its own.
"""

from __future__ import annotations

from typing import Final

from cdc.events.form import Form
from cdc.events.schemas.column_numbers import column_numbers
from cdc.events.schemas.column_schema import column_schema
from cdc.events.schemas.schema import BYTES, INT64, STRING, Schema, struct
from cdc.protocol.relation import Relation
from cdc.topics import table_topic

_FULL: Final = "f"
_TEXT: Final = STRING.as_optional()
_NUMBER: Final = INT64.as_optional()
_MARKERS: Final = (
    "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
)
SOURCE: Final = struct(
    "io.debezium.connector.postgresql.Source",
    1,
    version=STRING,
    connector=STRING,
    name=STRING,
    ts_ms=INT64,
    snapshot=Schema(
        "string",
        optional=True,
        name="io.debezium.data.Enum",
        version=1,
        parameters=(("allowed", _MARKERS),),
        default="false",
    ),
    db=STRING,
    sequence=_TEXT,
    ts_us=_NUMBER,
    ts_ns=_NUMBER,
    schema=STRING,
    table=STRING,
    txId=_NUMBER,
    lsn=_NUMBER,
    xmin=_NUMBER,
    origin=_TEXT,
    origin_lsn=_NUMBER,
    commit_lsn=_NUMBER,
    ordinal=_NUMBER,
    schema_id=_TEXT,
    unchanged=Schema("array", optional=True, items=STRING),
)
_BLOCK: Final = struct(
    "event.block", 1, id=STRING, total_order=INT64, data_collection_order=INT64
).as_optional()


def key_schema(relation: Relation, source: str, form: Form) -> Schema:
    """Of a table's keys, in the order of the key. Fields have no numbers of columns: a key's bytes
    choose its partition, and are the same when its column is replaced by one of the same name.
    Behind them is what tells the tables of a topic apart."""
    columns = {column.name: column for column in relation.columns}
    fields = tuple((name, column_schema(columns[name], form)) for name in relation.key)
    if told := form.place(source, relation.schema, relation.table).key_field:
        fields += ((told, STRING),)
    return Schema("struct", name=f"{_topic(relation, source)}.Key", fields=fields)


def event_schema(relation: Relation, source: str, form: Form, *, relaxed: bool = False) -> Schema:
    """Of a table's events. ``relaxed``: no column is required, in ``after`` neither, for a row that
    is older than a NOT NULL of its columns, or has a value that the form has nothing for."""
    topic = _topic(relation, source)
    after = _row(relation, f"{topic}.Value", form, None if relaxed else _all(relation))
    before = after
    if relation.replica_identity != _FULL and not relaxed:
        before = _row(relation, f"{topic}.Value", form, frozenset(relation.key))
        if before != after:
            before = _row(relation, f"{topic}.Before", form, frozenset(relation.key))
    return struct(
        f"{topic}.Envelope",
        2,
        before=before,
        after=after,
        source=SOURCE,
        transaction=_BLOCK,
        op=STRING,
        ts_ms=_NUMBER,
        ts_us=_NUMBER,
        ts_ns=_NUMBER,
    )


def _topic(relation: Relation, source: str) -> str:
    return table_topic(source, relation.schema, relation.table)


def _all(relation: Relation) -> frozenset[str]:
    return frozenset(column.name for column in relation.columns)


def _row(relation: Relation, name: str, form: Form, strict: frozenset[str] | None) -> Schema:
    """Of an image; columns that are not ``strict`` may be null whatever the table says."""
    fields = tuple(
        (column.name, found if strict and column.name in strict else found.as_optional())
        for column in relation.columns
        for found in [column_schema(column, form)]
    )
    numbers = column_numbers(relation.columns)
    return Schema("struct", optional=True, name=name, fields=fields, numbers=numbers)


MESSAGE_KEY: Final = struct("io.debezium.connector.postgresql.MessageKey", 1, prefix=_TEXT)
MESSAGE_VALUE: Final = struct(
    "io.debezium.connector.postgresql.MessageValue",
    1,
    op=STRING,
    ts_ms=_NUMBER,
    source=SOURCE,
    transaction=_BLOCK,
    message=struct(
        "io.debezium.connector.postgresql.Message",
        1,
        prefix=_TEXT,
        content=BYTES.as_optional(),
        omitted=struct("", bytes=INT64, sha256=STRING).as_optional(),
    ),
)
"""Of a logical message; ``omitted`` is Headwater's, of one that is too large."""
TRANSACTION_KEY: Final = struct("io.debezium.connector.common.TransactionMetadataKey", 1, id=STRING)
TRANSACTION_VALUE: Final = struct(
    "io.debezium.connector.common.TransactionMetadataValue",
    1,
    status=STRING,
    id=STRING,
    event_count=_NUMBER,
    data_collections=Schema(
        "array",
        optional=True,
        items=struct(
            "event.collection", 1, data_collection=STRING, event_count=INT64
        ).as_optional(),
    ),
    ts_ms=INT64,
)
