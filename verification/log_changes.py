"""What the log has changed of tables since an LSN, as relations over the snapshot of that LSN.

A batch of the mirrors ends where it ends in each topic, and that is at no LSN. With what the log
holds from the LSN on to that end, the snapshot's tables are what the mirrors are there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cdc.events.codes import DELETE, TRUNCATE
from cdc.kafka.broker import Record
from cdc.lsn import Position
from cdc.protocol.relation import Column, Relation
from cdc.source.postgres import identifier, literal
from jobs.state.values.value_texts import Reader, reader

Image = dict[str, Any]
_JSON: Final = ("json", "jsonb")
_SENT: Final = "\x01"
"""Before the name of a treated column: ``json_populate_record`` passes over it."""


class UntellableError(Exception):
    """The log does not say what a table is now, or not in a form that can be computed with."""


@dataclass(slots=True)
class _Row:
    """The newest change of a key; ``image`` is without unchanged values, None of a deleted row."""

    position: Position
    key: Image
    image: Image | None


@dataclass(slots=True)
class TableChanges:
    """Of one table, by key; ``kind`` is its ``relkind``. ``tagged`` are expressions of its treated
    columns (``treated_values``), which the log has as they left the source."""

    table: Relation
    kind: str
    tagged: Mapping[str, str] = field(default_factory=dict)
    rows: dict[str, _Row] = field(default_factory=dict)

    def add(self, records: Iterable[Record], lsn: int) -> None:
        """Take records into account, of those committed at or after an LSN.

        Raises ``UntellableError`` for a TRUNCATE, a row without a key or of another version of the
        table, and for what is no event.
        """
        for record in records:
            if record.value is None:
                continue
            try:
                self._add(_parsed(record.key), _parsed(record.value), lsn)
            except (ValueError, TypeError, KeyError):
                raise UntellableError from None

    def _add(self, key: Image, event: Image, lsn: int) -> None:
        source, op = event["source"], event["op"]
        position = Position(int(source["commit_lsn"]), int(source["ordinal"]))
        if position.commit_lsn < lsn:
            return
        names = [column.name for column in self.table.columns]
        if op == TRUNCATE or set(key) != set(self.table.key):
            raise UntellableError
        name = json.dumps([key[part] for part in self.table.key])
        held = self.rows.get(name)
        if held is not None and held.position > position:
            return
        if op == DELETE:
            self.rows[name] = _Row(position, key, None)
            return
        after = event["after"]
        if set(after) != set(names):
            raise UntellableError
        unchanged = set(source.get("unchanged") or ())
        known = held.image if held is not None and held.image is not None else {}
        image = {column: value for column, value in after.items() if column not in unchanged}
        image |= {column: known[column] for column in unchanged & known.keys()}
        self.rows[name] = _Row(position, key, image)

    def relation(self, published: str) -> str:
        """The table with its changes, as a SELECT in parentheses; ``published`` is what a snapshot
        publishes of it, a name or another such SELECT.

        Raises ``UntellableError`` for a value that is in no form of its type.
        """
        if not self.rows:
            return published
        table = f"{identifier(self.table.schema)}.{identifier(self.table.table)}"
        only = "" if self.kind == "p" else "only "
        columns = [identifier(column.name) for column in self.table.columns]
        keys = [identifier(name) for name in self.table.key]
        readers = {c.name: reader(c.type, c.typmod) for c in self.table.columns}
        raw = {c.name for c in self.table.columns if c.type.base in _JSON}
        try:
            readers = {name: one for name, one in readers.items() if name not in self.tagged}
            changed = [_text(row.key, readers, raw) for row in self.rows.values()]
            found = (row.image for row in self.rows.values())
            images = [_text(image, readers, raw) for image in found if image is not None]
        except (ValueError, TypeError, KeyError):
            raise UntellableError from None
        same = " and ".join(f"k.{name} = p.{name}" for name in keys)
        kept = (
            f"select {_listed('p', columns)} from {published} p where not exists (select from "
            f"json_populate_recordset(null::{table}, {_array(changed)}) k where {same})"
        )
        # What an image leaves out is what the row had before.
        there = " and ".join(f"k.{name} = b.{name}" for name in keys)
        values = ", ".join(map(self._put, self.table.columns))
        put = (
            f"select {values} from json_array_elements({_array(images)}) e(j) "
            f"cross join lateral json_populate_record(null::{table}, e.j) k "
            f"left join {only}{table} b on {there} "
            f"cross join lateral json_populate_record(b, e.j) r"
        )
        return f"({kept} union all {put})"

    def _put(self, column: Column) -> str:
        """The value of a row that was changed: ``e.j`` is its image, ``b`` the row before it."""
        name = identifier(column.name)
        if column.name not in self.tagged:
            return f"r.{name}"
        sent = literal(_SENT + column.name)
        before = f"(select {self.tagged[column.name]} from (select b.{name}) as t({name}))"
        return f"case when (e.j -> {sent}) is null then {before} else e.j ->> {sent} end as {name}"


def _parsed(data: bytes | None) -> Image:
    """A JSON object with its numbers as text."""
    found = json.loads(data or b"null", parse_int=str, parse_float=str, parse_constant=str)
    if not isinstance(found, dict):
        raise TypeError("no JSON object")
    return found


def _text(image: Mapping[str, Any], readers: Mapping[str, Reader], raw: set[str]) -> str:
    """A row as JSON whose values PostgreSQL reads with the input functions of their types."""
    parts = []
    for name, value in image.items():
        is_treated = name not in readers  # of no type but text
        if value is None:
            text = "null"
        elif is_treated:
            text = json.dumps(value, ensure_ascii=False)
        elif name in raw:
            if value.strip() == "null":  # which would be NULL
                raise ValueError("JSON's null")
            text = value
        else:
            text = json.dumps(readers[name](value), ensure_ascii=False)
        called = json.dumps(_SENT + name if is_treated else name, ensure_ascii=False)
        parts.append(f"{called}:{text}")
    return "{" + ",".join(parts) + "}"


def _array(objects: Sequence[str]) -> str:
    return f"{literal('[' + ','.join(objects) + ']')}::json"


def _listed(relation: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{relation}.{name}" for name in columns)
