"""What an alert says of a change: which are meant, and the message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc.config import RowAlert
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.protocol.treatment import Treatment
from headwater.alerts.rule import Message, Rule, relation_of
from headwater.conditions.condition import ConditionError


def column(name: str, base: str, **more: Any) -> Column:
    return Column(name, TypeInfo(1, "pg_catalog", base, "base", base), -1, name == "id", **more)


COLUMNS = (
    column("id", "int4"),
    column("total", "numeric"),
    column("note", "text"),
    column("mail", "text", treatment=Treatment("mask", "***")),
)
FULL = Relation(7, "public", "orders", "f", COLUMNS, ("id",))
DEFAULT = Relation(7, "public", "orders", "d", COLUMNS, ("id",))
KEYLESS = Relation(7, "public", "orders", "f", COLUMNS, ())
RISEN = "after.total > 1000 and (before.total is null or before.total <= 1000)"
OLD = {"id": 7, "total": "900", "note": "a", "mail": "***"}
NEW = {**OLD, "total": "1200"}


def rule(when: str = RISEN, relation: Relation = FULL, **settings: Any) -> Rule:
    settings = {"table": "public.orders", "webhook": "https://hooks.example.com", **settings}
    return Rule("shop", "big", RowAlert(when=when, **settings), lambda _: relation)


def event(
    op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, **source: Any
) -> bytes:
    told = {"commit_lsn": 100, "ordinal": 2, "schema_id": "1f", "ts_ms": 1_700_000_000_250,
            "schema": "public", "table": "orders"}  # fmt: skip
    return json.dumps(
        {"op": op, "before": before, "after": after, "source": {**told, **source}}
    ).encode()


def sent(rule: Rule, value: bytes) -> Message | None:
    return rule.message("shop.public.orders-0-5", b'{"id":7}', value)


@pytest.mark.parametrize(
    ("op", "before", "after", "is_meant"),
    [
        ("c", None, NEW, True),
        ("u", OLD, NEW, True),
        ("u", NEW, NEW, False),
        ("u", NEW, OLD, False),
        ("d", NEW, None, False),
        ("r", None, NEW, False),
        ("t", None, None, False),
    ],
)
def test_changes_that_meet_the_condition_are_meant_and_snapshot_rows_never(
    op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, is_meant: bool
) -> None:
    assert (sent(rule(), event(op, before, after)) is not None) == is_meant


def test_a_message_has_the_key_alone_unless_columns_are_named() -> None:
    found = sent(rule(), event("u", OLD, NEW))
    assert found is not None
    assert found.refused == ""
    assert json.loads(found.body) == {
        "type": "headwater.row.updated",
        "timestamp": "2023-11-14T22:13:20.250Z",
        "data": {
            "alert": "big", "source": "shop", "table": "public.orders", "op": "u",
            "key": {"id": 7}, "lsn": "0/64", "commit_lsn": 100, "ordinal": 2,
        },
    }  # fmt: skip


def test_named_columns_come_as_they_are_published() -> None:
    found = sent(rule(columns=["total", "mail"]), event("u", OLD, NEW))
    assert found is not None
    data = json.loads(found.body)["data"]
    assert data["before"] == {"total": "900", "mail": "***"}
    assert data["after"] == {"total": "1200", "mail": "***"}
    everything = sent(rule(columns=["*"]), event("c", None, NEW))
    assert everything is not None
    assert json.loads(everything.body)["data"]["after"] == NEW
    assert json.loads(everything.body)["data"]["before"] is None


def test_a_value_that_an_update_left_out_is_named_and_no_placeholder_is_sent() -> None:
    found = sent(
        rule("after.total > 1000", DEFAULT, columns=["note", "total"]),
        event("u", None, {**NEW, "note": "__debezium_unavailable_value"}, unchanged=["note"]),
    )
    assert found is not None
    data = json.loads(found.body)["data"]
    assert (data["after"], data["unchanged"]) == ({"total": "1200"}, ["note"])


@pytest.mark.parametrize(
    ("relation", "before"),
    [(DEFAULT, {"id": 7}), (FULL, {"id": 7, "total": None, "note": None})],
)
def test_old_values_that_nobody_knows_are_not_told_as_null(
    relation: Relation, before: dict[str, Any]
) -> None:
    """A delete has a place for each column; without FULL only the key was told."""
    found = sent(
        rule("op = 'd'", relation, columns=["id", "total", "note"]),
        event("d", {"id": 7, "total": None, "note": None, "mail": None}, None),
    )
    assert found is not None
    assert json.loads(found.body)["data"]["before"] == before


def test_a_change_has_one_id_however_often_it_is_sent() -> None:
    first, again = sent(rule(), event("u", OLD, NEW)), sent(rule(), event("u", OLD, NEW))
    other = sent(rule(), event("u", OLD, NEW, ordinal=3))
    assert first is not None
    assert first == again
    assert other is not None
    assert first.id != other.id


def test_what_an_event_does_not_say_is_not_guessed() -> None:
    """Its table has lost REPLICA IDENTITY FULL since, its column, or its old row."""
    lost = sent(rule(relation=DEFAULT), event("u", None, NEW))
    assert lost is not None
    assert "has not REPLICA IDENTITY FULL" in lost.refused
    renamed = FULL.__class__(7, "public", "orders", "f", COLUMNS[:1], ("id",))
    gone = sent(rule(relation=renamed), event("u", OLD, NEW))
    assert gone is not None
    assert "no column total" in gone.refused
    without = sent(rule(), event("u", None, NEW))
    assert without is not None
    assert "no old row" in without.refused
    foreign = sent(rule(), b'{"total": 5}')
    assert foreign is not None
    assert foreign.refused


def test_an_insert_is_decided_also_after_its_table_has_lost_full() -> None:
    """It has no old row, so nothing of that is unknown."""
    of_table = rule(relation=DEFAULT)
    found = sent(of_table, event("c", None, NEW))
    assert found is not None
    assert found.refused == ""
    assert sent(of_table, event("c", None, OLD)) is None
    assert sent(of_table, event("u", None, OLD)) is None, "after.total decides"
    for told in (event("u", None, NEW), event("d", {"id": 7}, None)):
        unsaid = sent(of_table, told)
        assert unsaid is not None
        assert "REPLICA IDENTITY FULL" in unsaid.refused


def test_the_old_key_is_known_without_full() -> None:
    assert sent(rule("before.id = 7", DEFAULT), event("u", None, NEW)) is not None


@pytest.mark.parametrize(
    ("when", "relation", "columns", "said"),
    [
        ("after.total > 1 and after.gone = 1", FULL, (), "at character 21: .* no column gone"),
        (RISEN, DEFAULT, (), "REPLICA IDENTITY FULL"),
        ("after.mail = 'x'", FULL, (), "treated"),
        ("after.total > 1", FULL, ("gone",), "columns: public.orders has no column gone"),
        ("after.total > 1", KEYLESS, (), "no key"),
    ],
)
def test_what_does_not_fit_the_table_is_refused(
    when: str, relation: Relation, columns: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConditionError, match=said):
        rule(when, columns=columns).refuse_misfit(relation)
    rule("after.total > 1", columns=("total", "mail")).refuse_misfit(relation)


def test_a_version_is_read_back_from_its_description() -> None:
    found = relation_of(FULL.describe())
    assert (found.name, found.replica_identity, found.key) == ("public.orders", "f", ("id",))
    assert [(one.name, one.type.base, one.treatment is None) for one in found.columns] == [
        (one.name, one.type.base, one.treatment is None) for one in COLUMNS
    ]


def test_changes_of_other_tables_in_the_same_topic_are_passed_over() -> None:
    assert sent(rule(), event("u", OLD, NEW, table="order_lines")) is None


def of_view(when: str, value: bytes) -> Message | None:
    alert = RowAlert(view="sales", when=when, webhook="https://hooks.example.com", columns=("*",))
    return Rule("shop", "big", alert, lambda _: FULL).message("view sales-1-5", b'{"id":7}', value)


def view_event(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> bytes:
    source = {"view": "sales", "schema_id": "e1", "change": "e1-5", "commit_lsn": 100, "ordinal": 2}
    return json.dumps({"op": op, "before": before, "after": after, "source": source}).encode()


def test_a_change_of_a_view_is_decided_as_one_of_a_table_and_has_its_own_id() -> None:
    found, again = (of_view(RISEN, view_event("u", OLD, NEW)) for _ in range(2))
    assert found is not None
    assert found == again
    data = json.loads(found.body)["data"]
    assert (data["view"], data["after"]["total"], "table" in data) == ("sales", "1200", False)
    assert of_view(RISEN, view_event("u", NEW, OLD)) is None
    other = of_view(RISEN, view_event("u", OLD, NEW).replace(b"e1-5", b"e1-6"))
    assert other is not None
    assert other.id != found.id


def test_a_row_that_was_written_before_its_view_got_a_column_has_null_there() -> None:
    short = {"id": 7}
    assert of_view("before.total is null", view_event("u", short, NEW)) is not None
    unsaid = of_view("before.total is null", view_event("u", None, NEW))
    assert unsaid is not None
    assert "no old row" in unsaid.refused
