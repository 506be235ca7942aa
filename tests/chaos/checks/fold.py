"""Is what the topics add up to the table? Pure but for the reading of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import psycopg

from cdc.topics import table_topic
from tests.chaos.checks.log import Log, Record, brief
from tests.chaos.workload.tables import TABLES, Table, quoted
from tests.chaos.workload.truth import key_text

Row = dict[str, str | None]
"""Values as text, by column."""
Contents = list[Row]
UNCHANGED: Final = "__debezium_unavailable_value"
_SHOWN: Final = 3

_COLUMNS: Final = """
select a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s and a.attnum > 0 and not a.attisdropped
  and a.attgenerated = '' order by a.attnum
"""


def read_tables(conn: psycopg.Connection[tuple[Any, ...]]) -> dict[str, Contents]:
    """All tables by label, as they are now; generated columns are not published."""
    found = {}
    for table in TABLES:
        names = [n for (n,) in conn.execute(_COLUMNS.encode(), (table.schema, table.name))]
        columns = ", ".join(f"{quoted(name)}::text" for name in names)
        rows = conn.execute(f"select {columns} from {table.sql}".encode(), ()).fetchall()
        found[table.label] = [
            {name: brief(value) for name, value in zip(names, row, strict=True)} for row in rows
        ]
    return found


def check_tables(log: Log, contents: Mapping[str, Contents], source: str) -> Iterator[str]:
    """Findings where the events of a table do not add up to what it holds."""
    for table in TABLES:
        topic = table_topic(source, table.schema, table.name)
        records = [records for (name, _), records in sorted(log.events.items()) if name == topic]
        if table.joins and not records:
            continue  # it was not told to
        if table.key:
            folded: dict[str, Row] = {}
            for partition in records:
                folded |= _fold(_by_position(partition) if table.joins else partition)
            yield from _differences(table, folded, contents[table.label])
        else:
            # Events without a key stand in the first partition; the others hold truncates only.
            rows = _fold_without_key(records[0] if records else [])
            yield from _surplus(table, rows, contents[table.label])


def _by_position(records: list[Record]) -> list[Record]:
    """Rows of a snapshot and changes stand side by side where a table joins."""
    return sorted((one for one in records if one.value is not None), key=lambda one: one.position)


def _fold(records: list[Record]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for record in records:
        if record.value is None:
            continue
        if record.op == "t":
            rows = {}
        elif record.op == "d":
            rows.pop(str(record.key), None)
        else:
            key = str(record.key)
            rows[key] = _row(record.value["after"], rows.get(key, {}))
    return rows


def _row(image: dict[str, Any], earlier: Row) -> Row:
    row = {name: _text(value) for name, value in image.items()}
    for name, value in row.items():
        if value == UNCHANGED and name in earlier:
            row[name] = earlier[name]
    return row


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _differences(table: Table, folded: Mapping[str, Row], contents: Contents) -> Iterator[str]:
    """A column that is in no event of a row is null: it was added later and not set since."""
    wanted = {_key(table, row): row for row in contents}
    for what, keys in (
        ("is not in the events", wanted.keys() - folded.keys()),
        ("is only in the events", folded.keys() - wanted.keys()),
    ):
        for key in sorted(keys)[:_SHOWN]:
            yield f"{table.label} {key} {what} ({len(keys)} such rows)"
    other = [
        f"{table.label} {key}: {name} is {_short(folded[key].get(name))} in the events, "
        f"{_short(value)} in the table"
        for key, row in wanted.items()
        if key in folded
        for name, value in row.items()
        if folded[key].get(name) != value
    ]
    yield from (f"{line} ({len(other)} such values)" for line in other[:_SHOWN])


def _key(table: Table, row: Row) -> str:
    """From text; the only numbers in keys are those of integer columns."""
    values: dict[str, object] = {}
    for name in table.key:
        text = row[name] or ""
        values[name] = text if name in ("tenant", "ref", "code") else int(text)
    return str(key_text(values))


def _short(value: str | None) -> str:
    if value is None:
        return "null"
    return repr(value) if len(value) < 40 else f"{value[:20]!r}... of {len(value)}"


def _fold_without_key(records: list[Record]) -> Counter[frozenset[tuple[str, str | None]]]:
    """Rows that only their values tell apart: an update takes its old row away."""
    rows: Counter[frozenset[tuple[str, str | None]]] = Counter()
    for record in records:
        if record.value is None:
            continue
        if record.op == "t":
            rows.clear()
            continue
        before, after = record.value["before"], record.value["after"]
        if before is not None:
            rows[_frozen(before)] -= 1
        if after is not None:
            rows[_frozen(after)] += 1
    return rows


def _frozen(row: Mapping[str, object]) -> frozenset[tuple[str, str | None]]:
    return frozenset((name, _text(value)) for name, value in row.items())


def _surplus(
    table: Table, rows: Counter[frozenset[tuple[str, str | None]]], contents: Contents
) -> Iterator[str]:
    wanted = Counter(_frozen(row) for row in contents)
    for row in list(set(rows) | set(wanted)):
        if rows[row] != wanted[row]:
            token = dict(row).get("token")
            yield f"{table.label}: token {token} stands {rows[row]} times, {wanted[row]} in it"
