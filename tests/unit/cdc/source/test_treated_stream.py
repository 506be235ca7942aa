"""Which columns of the stream are treated, also under names that are not the configuration's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cdc.config import Source
from cdc.errors import SourceError
from cdc.protocol.messages import RelationColumn, RelationMessage
from cdc.protocol.relation import TypeInfo
from cdc.protocol.treatment import Treatment
from cdc.source.catalog import TableFacts
from cdc.source.columns import recorded_treatments, treated_columns
from cdc.source.columns.recorded_treatments import RecordedColumn
from cdc.source.columns.treated_columns import StreamColumns
from cdc.source.relations import describe

INT4 = TypeInfo(23, "pg_catalog", "int4", "base", "int4")
OID = 9


class Catalog:
    """Answers what a session would: the columns of ``public.person``, and what is computed of
    them."""

    def __init__(self, *names: str, computed: Sequence[tuple[str, str]] = ()) -> None:
        self.names, self.computed = names, computed

    def execute(self, query: str, _: object = ()) -> Any:
        rows: list[tuple[Any, ...]] = [(name, i, False) for i, name in enumerate(self.names, 1)]
        if query == treated_columns._COMPUTED:
            rows = list(self.computed)

        class Found:
            def fetchall(self) -> list[tuple[Any, ...]]:
                return rows

        return Found()


def facts(*names: str, dropped: int = 0) -> TableFacts:
    columns = tuple((name, INT4.oid, -1, i) for i, name in enumerate(names, 1))
    return TableFacts(dict.fromkeys(names, True), ("id",), (), columns, len(names) + dropped)


OTHER = RecordedColumn(11, 2, "hash 1 0123456789abcdef", None, 11)
"""Of a table that the configuration has no entry of."""


@pytest.fixture
def recorded() -> list[tuple[int, dict[int, str]]]:
    """What is written anew, with the table's OID."""
    return []


@pytest.fixture
def columns(
    monkeypatch: pytest.MonkeyPatch, recorded: list[tuple[int, dict[int, str]]]
) -> StreamColumns:
    monkeypatch.setattr(treated_columns, "table_oid", lambda *_: OID)
    monkeypatch.setattr(treated_columns, "labels_now", lambda *_: [])
    monkeypatch.setattr(treated_columns, "chosen_tables", lambda *_: ([], []))
    monkeypatch.setattr(recorded_treatments, "recorded", lambda *_: [OTHER])

    def record(_conn: object, _source: object, oid: int, new: dict[int, Treatment]) -> None:
        recorded.append((oid, {at: str(one) for at, one in new.items()}))

    monkeypatch.setattr(recorded_treatments, "record", record)
    treated = {"public.person": {"ssn": "mask"}}
    found = StreamColumns(
        Source.model_validate({"name": "s", "dsn": "x", "tables": ["*.*"], "columns": treated})
    )
    found.begin(Catalog("id", "ssn"))  # type: ignore[arg-type]
    assert recorded == [(OID, {2: "mask ***"})]
    return found


def treated(
    columns: StreamColumns,
    sent: Sequence[str],
    now: TableFacts,
    table: str = "person",
    oid: int = OID,
    computed: Sequence[tuple[str, str]] = (),
) -> dict[str, str]:
    """What becomes of the columns of a message, by name."""
    message = RelationMessage(
        oid, "public", table, "d", tuple(RelationColumn(n, 23, -1, n == "id") for n in sent)
    )
    relation = describe(message, now, {23: INT4})
    catalog: Any = Catalog(*sent, computed=computed)
    found = columns.applied(catalog, relation, now)
    return {one.name: str(one.treatment or "") for one in found.columns}


@pytest.mark.parametrize("table", ["person", "people"])
@pytest.mark.parametrize("name", ["ssn", "tax_id"])
def test_a_column_is_treated_under_every_name_that_it_is_given(
    columns: StreamColumns, table: str, name: str
) -> None:
    """The configuration still has the names of the start."""
    sent = ("id", name, "note")
    found = treated(columns, sent, facts(*sent), table)
    assert found == {"id": "", name: "mask ***", "note": ""}


def test_older_wal_with_another_name_is_of_the_same_column(columns: StreamColumns) -> None:
    found = treated(columns, ("id", "tax_id"), facts("id", "ssn"))
    assert found == {"id": "", "tax_id": "mask ***"}


def test_what_is_not_certainly_another_column_is_left_out(columns: StreamColumns) -> None:
    found = treated(columns, ("id", "old", "note"), facts("id", "ssn", "note", dropped=1))
    assert found == {"id": "", "note": ""}


def test_a_table_of_the_name_that_lacks_the_column_stops_capture(columns: StreamColumns) -> None:
    """It may have been made anew, with the column under another name."""
    sent = ("id", "social")
    with pytest.raises(
        SourceError, match=r"source\.columns names .*\.ssn, but .* has no such column"
    ):
        treated(columns, sent, facts(*sent), oid=10)


def test_a_column_in_the_key_and_a_published_one_that_is_computed_stop_capture(
    columns: StreamColumns,
) -> None:
    now = facts("id", "ssn")._replace(primary_key=("ssn",))
    message = RelationMessage(OID, "public", "person", "d", (
        RelationColumn("id", 23, -1, False), RelationColumn("ssn", 23, -1, True),
    ))  # fmt: skip
    relation = describe(message, now, {23: INT4})
    with pytest.raises(SourceError, match=r"public\.person\.ssn, which source\.columns treats"):
        columns.applied(Catalog(), relation, now)  # type: ignore[arg-type]
    sent = ("id", "ssn", "loud")
    with pytest.raises(SourceError, match="generated column loud is computed from ssn"):
        treated(columns, sent, facts(*sent), computed=[("loud", "ssn")])
    assert treated(columns, sent[:2], facts(*sent[:2]), computed=[("loud", "ssn")])


def test_wal_of_a_dropped_column_without_an_entry_is_sent_without_it(
    columns: StreamColumns,
) -> None:
    now = facts("id", dropped=1)
    assert treated(columns, ("id", "ssn"), now, "visit", oid=11) == {"id": ""}


@pytest.mark.parametrize(
    "now",
    [facts("id", "ssn", "note"), facts("id", "social", "note"), TableFacts({}, (), ())],
    ids=["there", "renamed", "gone"],
)
def test_wal_of_a_treated_column_without_an_entry_stops_capture(
    columns: StreamColumns, now: TableFacts
) -> None:
    """At the start it would be refused if its table were captured still."""
    with pytest.raises(SourceError, match="ssn, which was treated, and has no entry now"):
        treated(columns, ("id", "ssn", "note"), now, "visit", oid=11)


def test_a_table_that_is_made_again_is_recorded_with_its_first_event(
    columns: StreamColumns, recorded: list[tuple[int, dict[int, str]]]
) -> None:
    sent = ("ssn", "id")
    assert treated(columns, sent, facts(*sent), oid=10) == {"id": "", "ssn": "mask ***"}
    assert recorded[1:] == [(10, {1: "mask ***"})]
