"""Names of columns that stores have no room for are told when a view is declared."""

from __future__ import annotations

import pytest

from views.parse.store_names import paths_of, unfit
from views.types import INT4, TEXT, PgType, array_of

NESTED = PgType(
    "struct", fields=(("a", INT4), ("b", array_of(PgType("struct", fields=(("c", TEXT),)))))
)
LONG = "x" * 63


@pytest.mark.parametrize(
    ("kind", "names", "reason"),
    [
        *(("opensearch", [name], "no fields named") for name in
          ("_id", "_index", "_source", "_routing", "a.b", ".a", "a.", ".", "a b", " ",
           "a*", "a\tb")),
        ("delta", ["id", "Name", "name"], "takes 'Name' and 'name' for one name"),
        ("delta", ["Ä", "ä"], "for one name"),
        ("postgres", [LONG + "x"], "cuts names behind 63 bytes"),
        ("postgres", ["ü" * 32], "cuts names behind 63 bytes"),
        ("postgres", ["ctid"], "a column 'ctid' of its own"),
    ],
)  # fmt: skip
def test_what_a_store_cannot_keep_has_a_reason_and_a_way_out(
    kind: str, names: list[str], reason: str
) -> None:
    found = unfit(kind, [(name,) for name in names])
    assert found is not None
    assert reason in found.reason
    assert "AS" in found.hint


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("opensearch", ["id", "Id", "ü", "a-b", "a_", "ctid", LONG * 3]),
        ("delta", ["_id", "a.b", "a b", " ", "a,;{}()=b", LONG * 3, "ctid"]),
        ("postgres", ["_id", "a.b", "a b", "Name", "name", LONG, "CTID"]),
        ("redis", ["_id", "a.b", " ", "Name", "name", LONG * 3, "ctid"]),
    ],
)
def test_what_it_can_keep_is_left_alone(kind: str, names: list[str]) -> None:
    assert unfit(kind, [(name,) for name in names]) is None


def test_fields_of_objects_are_names_too() -> None:
    paths = list(paths_of([("id", INT4), ("o", array_of(NESTED))]))
    assert paths == [("id",), ("o",), ("o", "a"), ("o", "b"), ("o", "b", "c")]
    assert unfit("opensearch", [("o",), ("o", "_a")]) is not None
    assert unfit("delta", [("o",), ("o", "a"), ("o", "A")]) is not None
    assert unfit("delta", [("o", "a"), ("p", "A")]) is None
    assert unfit("postgres", [("o",), ("o", LONG + "x")]) is None
