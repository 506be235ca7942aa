"""Which row is meant: the key of its events, from what a person writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from cdc.config import Config
from cdc.errors import SourceError, UsageError
from cdc.events.formats.packing import NoIds, table_packing
from cdc.events.rows import RowEncoder
from cdc.protocol.messages import Values
from cdc.protocol.relation import Relation
from cdc.source.catalog import chosen_tables, relation
from cdc.source.errors import sqlstate, translated
from cdc.source.postgres import Connection, connect, identifier
from cdc.source.selection import meant
from cdc.source.table_lookup import table_of
from cdc.source.types import load_types

_DATA_EXCEPTION = "22"


class RowKey(NamedTuple):
    """``event`` is the key as records have it, ``placed`` what chooses its partition, ``texts`` are
    its values by column, as text."""

    table: str
    topic: str
    event: bytes
    placed: bytes
    texts: dict[str, str]


def row_key(config: Config, table: str, given: Sequence[str]) -> RowKey:
    """Ask the source. Raises ``UsageError`` for a table that is not there or has no key, and for a
    key that is none of it."""
    schema, _, name = table.rpartition(".")
    schema, source = schema or "public", config.source
    with connect(source.dsn, application_name="headwater trace") as conn:
        try:
            oid, _ = table_of(conn, schema, name)
        except SourceError as error:
            labels = [one.label for one in chosen_tables(conn, source)[0]]
            raise no_table(f"{schema}.{name}", labels) from error
        shape = relation(conn, oid, load_types(conn), source.publication_name, source.keys)
        if not shape.key:
            raise UsageError(
                f"{schema}.{name}: its events have no key", "add a primary key to the table"
            )
        texts = given_texts(f"{schema}.{name}", shape.key, given)
        values = _values(conn, shape, f"{identifier(schema)}.{identifier(name)}", texts)
    event, placed = key_bytes(config, shape, values)
    plain = {name: value.decode() for name, value in zip(shape.key, values, strict=True)}
    topic = source.topic(schema, name)
    return RowKey(f"{schema}.{name}", topic, event, placed, plain)


def key_bytes(config: Config, shape: Relation, values: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The key of records whose key columns have these values, but for a schema's id, and what
    chooses their partition. Pure."""
    at, name = dict(zip(shape.key, values, strict=True)), config.source.name
    row: Values = [at.get(column.name) for column in shape.columns]
    rows = RowEncoder(shape, config.form, name)
    event = rows.key(row)
    assert event is not None, "the table has a key"
    packing = table_packing(shape, name, config.form, NoIds())
    if packing is not None:
        event = packing.key(event)
    parted = config.source.place(shape.schema, shape.table).partition_by
    return event, rows.partition_key(row) if parted else event


def no_table(label: str, captured: Sequence[str]) -> UsageError:
    """That the source has no such table, with the one that is probably meant. Pure."""
    known = ", ".join(captured) or "there is none"
    way = meant(label, captured) or f"choose a captured table, as schema.table: {known}"
    return UsageError(f"the source has no table {label}", way)


def given_texts(table: str, key: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """``5``, ``a=1 b=2`` or ``{"a": 1, "b": 2}``, each value as text. Pure."""
    wanted = " ".join(f"{name}=VALUE" for name in key)
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        try:
            parsed = json.loads(given[0], parse_int=str, parse_float=str)
        except ValueError:
            raise UsageError(f"{given[0]} is no JSON object", f"write {wanted}") from None
        found = {name: one if isinstance(one, str) else json.dumps(one)
                 for name, one in parsed.items()}  # fmt: skip
    elif len(key) == 1 and len(given) == 1 and not given[0].startswith(f"{key[0]}="):
        found = {key[0]: given[0]}
    else:
        found = dict(one.partition("=")[::2] for one in given)
    if found.keys() != set(key):
        raise UsageError(f"{table}: its key is {', '.join(key)}", f"write {wanted}")
    return {name: found[name] for name in key}


def _values(conn: Connection, shape: Relation, table: str, texts: dict[str, str]) -> list[bytes]:
    """The key's values in the text that capture gets them in."""
    names = ", ".join(f"r.{identifier(name)}" for name in shape.key)
    query = f"select {names} from json_populate_record(null::{table}, %s::json) r"
    try:
        with translated(f"reading a key of {table}"):
            result = conn.execute(query.encode(), (json.dumps(texts),)).pgresult
    except SourceError as error:
        if not sqlstate(error).startswith(_DATA_EXCEPTION):
            raise
        reason = str(error.__cause__).partition("\n")[0]
        raise UsageError(
            f"{table}: no such key: {reason}", "give it as PostgreSQL reads it"
        ) from None
    assert result is not None
    return [result.get_value(0, i) or b"" for i in range(len(shape.key))]
