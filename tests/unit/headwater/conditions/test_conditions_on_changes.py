"""Conditions over the row before a change and the row after it."""

from __future__ import annotations

import pytest

from cdc.protocol.relation import Relation
from headwater.conditions.condition import ConditionError, UndecidedError
from headwater.conditions.decide import Image, images_of, meets
from headwater.conditions.fit import fitted_to_changes
from headwater.conditions.parse import parse_condition
from tests.unit.headwater.conditions.orders import FULL, ORDERS, ROW


def change(
    text: str,
    op: str,
    before: Image,
    after: Image,
    relation: Relation = FULL,
) -> bool | None:
    condition = fitted_to_changes(parse_condition(text), relation)
    return meets(condition, images_of(before, after), op)


NONE, OLD, NEW = Image(None), Image({**ROW, "total": "900"}), Image(ROW)
RISEN = "after.total > 1000 and (before.total is null or before.total <= 1000)"


@pytest.mark.parametrize(
    ("text", "op", "before", "after", "expected"),
    [
        (RISEN, "c", NONE, NEW, True),
        (RISEN, "u", OLD, NEW, True),
        (RISEN, "u", NEW, NEW, False),
        (RISEN, "d", NEW, NONE, False),
        ("after.total > 1000", "d", NEW, NONE, None),
        ("op = 'd' and before.status = 'open'", "d", OLD, NONE, True),
        ("op in ('c', 'u') and after.status = 'open'", "d", OLD, NONE, False),
        ("op <> 'u'", "c", NONE, NEW, True),
        ("before.total <> after.total", "u", OLD, NEW, True),
        ("before.total <> after.total", "c", NONE, NEW, None),
        ("before.total is distinct from after.total", "c", NONE, NEW, True),
        ("not before.total > after.total", "c", NONE, NEW, None),
    ],
)
def test_a_change_meets_a_condition_over_both_images(
    text: str, op: str, before: Image, after: Image, expected: bool | None
) -> None:
    assert change(text, op, before, after) is expected


@pytest.mark.parametrize(
    ("text", "relation", "said"),
    [
        ("total > 1", FULL, "at character 1: total is of no row"),
        ("after.id = 7 and before.total > 1", ORDERS, "at character 18: before.total is not known"),
        ("op = 'r'", FULL, "insert"),
        ("op > 'c'", FULL, "insert"),
        ("after.gone = 1", FULL, "no column gone"),
        ("after.at > 5", FULL, "timestamptz"),
    ],
)
def test_a_condition_that_a_change_cannot_decide_is_refused(
    text: str, relation: Relation, said: str
) -> None:
    with pytest.raises(ConditionError, match=said):
        change(text, "u", OLD, NEW, relation)


def test_the_key_of_the_old_row_is_known_without_full() -> None:
    assert change("before.id = 7", "d", OLD, NONE, ORDERS) is True


def test_an_image_that_is_not_known_is_not_guessed() -> None:
    with pytest.raises(UndecidedError, match="no old row"):
        change("before.total > 1", "u", Image(None, unknown="no old row"), NEW)
    assert change("after.id = 8 and before.total > 1", "u", Image(None, unknown="-"), NEW) is False


def test_what_does_not_fit_an_event_matters_only_where_nothing_else_decides() -> None:
    def of_update(text: str) -> bool | None:
        condition = fitted_to_changes(parse_condition(text), ORDERS, "u")
        return meets(condition, images_of(Image(None), Image(ROW)), "u")

    assert of_update("before.total > 1 and after.id = 8") is False
    assert of_update("before.total > 1 or op = 'u'") is True
    with pytest.raises(UndecidedError, match="has not REPLICA IDENTITY FULL"):
        of_update("before.total > 1")
