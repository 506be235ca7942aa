"""The entries of ``source.keys`` that no captured table uses, or that name no column of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from cdc.config import Source
from cdc.source.catalog import TableFacts, key_columns, table_facts
from cdc.source.postgres import Connection
from cdc.source.selection import Table


class KeyFault(NamedTuple):
    """What is wrong with the entry of ``table``; ``stops``: its events would have no such key, so
    nothing of it can be captured."""

    table: str
    message: str
    hint: str
    stops: bool = False


def key_faults(conn: Connection, source: Source, tables: Sequence[Table]) -> list[KeyFault]:
    """The faults of ``source.keys``; ``tables`` are those that are captured."""
    by_label = {table.label: table for table in tables}
    faults = []
    for label, columns in source.keys.items():
        table = by_label.get(label)
        if table is None:
            others = [other for other in by_label if other not in source.keys]
            fault: KeyFault | None = _of_no_table(label, others)
        else:
            facts = table_facts(conn, table.oid)
            fault = _of_table(label, table.replica_identity, facts, columns)
        if fault is not None:
            faults.append(fault)
    return faults


def _of_no_table(label: str, others: Sequence[str]) -> KeyFault:
    near = get_close_matches(label, others, 1, 0.75)
    hint = f"did you mean {near[0]}?" if near else "add it to source.tables, or remove the entry"
    return KeyFault(label, f"source.keys: no captured table is {label}", hint)


def _of_table(
    label: str, identity: str, facts: TableFacts, columns: Sequence[str]
) -> KeyFault | None:
    used = identity == "f" and not facts.primary_key
    key = key_columns(identity, facts, columns)
    if not used:
        kind = "replica identity index" if identity == "i" else "primary key"
        message = f"source.keys: the entry of {label} is not used: its key is {', '.join(key)}"
        return KeyFault(label, f"{message}, of its {kind}", "remove the entry")
    missing = [column for column in columns if column not in facts.nullable]
    if not missing:
        return None
    near = get_close_matches(missing[0], facts.nullable, 1)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(facts.nullable)}"
    message = f"source.keys: {label} has no column {', '.join(missing)}"
    return KeyFault(label, message, hint, stops=True)
