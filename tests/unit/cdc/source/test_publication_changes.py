"""The SQL that makes a publication fit, decided without a server."""

from __future__ import annotations

import pytest

from cdc.errors import SourceError
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
