"""Labels that an enum does not have are refused, where the enum's labels are known."""

from __future__ import annotations

import pytest

from cdc.errors import ViewError
from views.enum_labels import labelled
from views.parse.definition import parse_view
from views.spark.view import View, resolve_view
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, TEXT, PgType, array_of

ENUM = PgType("enum")
KINDS = ("checkup", "illness", "other")
VISITS = TableVersion(
    "a" * 16,
    "public",
    "visits",
    (
        TableColumn("id", INT4, False, 1),
        TableColumn("kind", ENUM, True, 2),
        TableColumn("mood", ENUM, True, 3),
        TableColumn("kinds", array_of(ENUM), True, 4),
        TableColumn("note", TEXT, True, 5),
        TableColumn("unknown", ENUM, True, 6),
    ),
    ("id",),
)
LABELS = {2: KINDS, 3: ("good", "bad"), 4: KINDS}
ASKED = labelled(VISITS, LABELS)


def view(sql: str, table: TableVersion = ASKED) -> View:
    return resolve_view(parse_view("v", "s", ("id",), sql), {table.name: table})


REFUSED = [
    "select id from visits where kind = 'chekup'",
    "select id from visits where 'chekup' <> kind",
    "select id from visits where kind in ('illness', 'chekup')",
    "select id from visits where kind is distinct from 'chekup'",
    "select id, case kind when 'chekup' then 1 end as x from visits",
    "select id, case when id = 1 then kind else 'chekup' end as x from visits",
    "select id, coalesce(kind, 'chekup') as x from visits",
    "select id, nullif(kind, 'chekup') as x from visits",
    "select id from visits where kinds[1] = 'chekup'",
    "select id from visits where coalesce(kind, 'other') = 'chekup'",
    "select v.id from visits v join visits w on w.id = v.id and w.kind = 'chekup'",
    "select id, count(*) as n from visits group by id, kind having kind = 'chekup'",
    "select id, count(*) filter (where kind = 'chekup') as n from visits group by id",
    "select v.id, json_agg(json_build_object('a', coalesce(w.kind, 'chekup'))) as l "
    "from visits v join visits w on w.id = v.id group by v.id",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_a_label_that_the_enum_does_not_have_is_refused_with_those_it_has(sql: str) -> None:
    with pytest.raises(ViewError) as caught:
        view(sql)
    assert caught.value.message.startswith("views.v.sql, line 1, column ")
    assert "'chekup' is no label of the enum" in caught.value.message
    assert caught.value.hint == "Choose from 'checkup', 'other', 'illness'."
    view(sql, VISITS)  # nobody could say which labels there are


@pytest.mark.parametrize("sql", REFUSED)
def test_a_label_that_it_has_is_taken(sql: str) -> None:
    view(sql.replace("chekup", "checkup"))


@pytest.mark.parametrize(
    "sql",
    [
        "select id from visits where kind::text = 'chekup'",
        "select id from visits where note = 'chekup'",
        "select id from visits where unknown = 'chekup'",
        "select id from visits where mood = 'good'",
        "select id, case when kind = 'other' then mood else 'bad' end as x from visits",
        "select id, coalesce(kind, null) as x from visits",
    ],
)
def test_what_is_no_label_of_a_known_enum_is_left_alone(sql: str) -> None:
    view(sql)


def test_of_many_labels_the_closest_are_named() -> None:
    many = {2: tuple(f"kind {i}" for i in range(100))}
    with pytest.raises(ViewError) as caught:
        view("select id from visits where kind = 'Kind 77'", labelled(VISITS, many))
    assert caught.value.hint.startswith("Choose from 'kind 77', ")
    assert caught.value.hint.endswith(", and 90 more.")


def test_a_cast_to_an_enum_is_pointed_to_the_literal_alone() -> None:
    with pytest.raises(ViewError, match="not cast to here") as caught:
        view("select id from visits where kind = 'other'::visit_kind")
    assert "Write the literal alone" in caught.value.hint
