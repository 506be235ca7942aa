"""The SQL that makes a publication fit, decided without a server."""

from __future__ import annotations

import pytest

from cdc.errors import SourceError
from cdc.source.columns.excluded_columns import ColumnList
from cdc.source.publication import Publication, changes
from cdc.source.selection import Table

OPTIONS = "(publish = 'insert, update, delete, truncate', publish_via_partition_root = true)"


def tables(*names: str) -> list[Table]:
    return [Table(i, "public", name, "r", "p", "d", True) for i, name in enumerate(names)]


def has(*names: str, publishes_all: bool = True, via_root: bool = True) -> Publication:
    return Publication(frozenset(("public", name) for name in names), publishes_all, via_root)


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        (
            None,
            [
                'CREATE PUBLICATION "p" FOR TABLE ONLY "public"."a", ONLY "public"."b" '
                f"WITH {OPTIONS}"
            ],
        ),
        (has("a", "b"), []),
        (has("a"), ['ALTER PUBLICATION "p" ADD TABLE ONLY "public"."b"']),
        (has("a", "b", "c"), ['ALTER PUBLICATION "p" DROP TABLE ONLY "public"."c"']),
        (has("a", "b", publishes_all=False), [f'ALTER PUBLICATION "p" SET {OPTIONS}']),
        (has("a", "b", via_root=False), [f'ALTER PUBLICATION "p" SET {OPTIONS}']),
    ],
)
def test_only_what_does_not_fit_is_changed(
    current: Publication | None, expected: list[str]
) -> None:
    assert changes("p", current, tables("b", "a")) == expected


def test_a_publication_that_takes_in_tables_by_itself_is_refused() -> None:
    current = Publication(frozenset(), True, True, "FOR ALL TABLES")
    with pytest.raises(SourceError, match=r"FOR ALL TABLES.*source\.publication"):
        changes("p", current, tables("a"))


def test_excluded_columns_are_left_out_of_what_is_published() -> None:
    lists = {("public", "a"): ColumnList(("id", "Note"))}
    (made,) = changes("p", None, tables("a", "b"), lists)
    assert 'ONLY "public"."a" ("id", "Note"), ONLY "public"."b" WITH' in made
    (added,) = changes("p", has("b"), tables("a", "b"), lists)
    assert added == 'ALTER PUBLICATION "p" ADD TABLE ONLY "public"."a" ("id", "Note")'
    assert changes("p", has("a", "b"), tables("a", "b"), lists) == []


def test_a_table_whose_excluded_columns_are_published_is_added_anew_with_its_filter() -> None:
    lists = {("public", "a"): ColumnList(("id",), "(id > 3)", ("secret",))}
    assert changes("p", has("a", "b"), tables("a", "b"), lists) == [
        'ALTER PUBLICATION "p" DROP TABLE ONLY "public"."a"',
        'ALTER PUBLICATION "p" ADD TABLE ONLY "public"."a" ("id") WHERE ((id > 3))',
    ]
