"""How the key of a row is written on the command line, and what is said where it has no change."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from cdc.config import parse_config
from cdc.errors import UsageError
from cdc.events.captured_table import Table
from cdc.events.envelope import SourceContext
from cdc.events.formats.packing import NoIds
from cdc.protocol.messages import Values
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.topics import partition_for, unframed
from headwater.cli.trace.changes import Change, KeyLog
from headwater.cli.trace.display import show
from headwater.cli.trace.row_key import RowKey, given_texts, key_bytes, no_table
from headwater.cli.trace.way import Way, unchecked


@pytest.mark.parametrize(
    ("key", "given", "texts"),
    [
        (["id"], ["42"], {"id": "42"}),
        (["id"], ["id=42"], {"id": "42"}),
        (["id"], ["a=b"], {"id": "a=b"}),
        (["id"], ['{"id": 42}'], {"id": "42"}),
        (["a", "b"], ["b=x=y", "a=1"], {"a": "1", "b": "x=y"}),
        (["a", "b"], ['{"b": "é", "a": 1.50}'], {"a": "1.50", "b": "é"}),
        (["on"], ['{"on": true}'], {"on": "true"}),
    ],
)
def test_a_key_is_a_value_or_columns_or_json(
    key: list[str], given: list[str], texts: dict[str, str]
) -> None:
    assert given_texts("public.t", key, given) == texts


@pytest.mark.parametrize("given", [["1"], ["a=1"], ["a=1", "b=2", "c=3"], ['{"a": 1}'], ["{a"]])
def test_one_that_lacks_a_column_or_has_another_is_refused(given: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        given_texts("public.t", ["a", "b"], given)
    assert refused.value.hint == "Write a=VALUE b=VALUE."


@pytest.mark.parametrize(
    ("start", "said"),
    [(0, "no change of this key was found\n"), (5, "was found in what was searched\n")],
)
def test_a_key_without_a_change_is_told_so(start: int, said: str) -> None:
    key = RowKey("public.t", "shop.public.t", b'{"id":9}', b'{"id":9}', {"id": "9"})
    stream = StringIO()
    show(Way(key, KeyLog("shop.public.t", 0, [], start, 7, 0), []), Console(file=stream, width=99))
    assert said in stream.getvalue()


def test_a_search_says_what_shows_more_of_the_key() -> None:
    key = RowKey("public.t", "shop.public.t", b'{"id":9}', b'{"id":9}', {"id": "9"})
    change = Change(6, "u", 9, 1, 1.0, 1.1, 1.2)
    for enough, said in ((True, ": --changes shows more\n"), (False, ": --records and --since")):
        stream = StringIO()
        log = KeyLog("shop.public.t", 0, [change], 5, 7, 0, enough)
        show(Way(key, log, []), Console(file=stream, width=99))
        assert said in stream.getvalue()


@pytest.mark.parametrize(
    ("label", "way"),
    [
        ("public.ticket", "Did you mean public.tickets?"),
        ("public.Tickets", "Did you mean public.tickets?"),
        ("x.y", "Choose a captured table, as schema.table: public.tickets, public.customers."),
    ],
)
def test_a_table_that_is_not_there_names_the_one_that_is_meant(label: str, way: str) -> None:
    error = no_table(label, ["public.tickets", "public.customers"])
    assert str(error) == f"the source has no table {label}. {way}"


def test_a_row_that_is_not_looked_up_has_its_reason() -> None:
    assert unchecked("it reads several tables", "public.orders") == (
        "the view's row is not made of this row alone: it reads several tables"
    )
    assert unchecked("", "public.orders") == "the view's key is not the key of public.orders"


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("format", ["", "avro", "json-schema", "protobuf"])
def test_a_key_is_looked_for_where_the_stream_puts_it(format: str, parted: bool) -> None:
    route = {"tables": ["public.t"], "topic": "{source}.t", "partition_by": ["c1"]}
    registry = {"format": format, "registry": {"url": "http://127.0.0.1:9"}}
    config = parse_config(
        {
            "source": {"name": "s", "dsn": "x", "tables": ["public.*"],
                       "routes": [route] if parted else []},
            "kafka": {"bootstrap_servers": "127.0.0.1:9"},
            "events": registry if format else {},
        },
        {},
        Path("/"),
    )  # fmt: skip
    columns = tuple(
        Column(f"c{number}", TypeInfo(1, "pg_catalog", kind, kind, kind), -1, kind != "bool")
        for number, kind in enumerate(("int4", "text", "bool"))
    )
    shape = Relation(1, "public", "t", "d", columns, ("c0", "c1"))
    context = SourceContext("1", "s", "db", config.form, NoIds() if format else None)
    table = Table(shape, context, ())
    table.first.partitions = 7
    for number in range(20):
        values = [str(number).encode(), f"é{number}".encode()]
        event, placed = key_bytes(config, shape, values)
        row: Values = [*values, b"t"]
        record = table.first.record(table.rows.key(row), b"{}" if not format else None, row=row)
        assert unframed(record["key"]) == unframed(event)
        chosen = record.get("partition", partition_for(record["key"], 7))
        assert partition_for(placed, 7) == chosen
