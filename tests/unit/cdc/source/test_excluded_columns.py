"""What capture keeps of WAL from before the publication left a column out."""

from __future__ import annotations

import pytest

from cdc.errors import SourceError
from cdc.protocol.messages import RelationColumn, RelationMessage
from cdc.protocol.relation import TypeInfo
from cdc.source.catalog import TableFacts
from cdc.source.relations import describe, without

INT4 = TypeInfo(23, "pg_catalog", "int4", "base", "int4")
TEXT = TypeInfo(25, "pg_catalog", "text", "base", "text")
NOW = TableFacts(
    {"id": False, "ssn": True, "note": True},
    ("id",),
    (),
    (("id", INT4.oid, -1, 1), ("note", TEXT.oid, -1, 3)),
    3,
    unpublished=frozenset({2}),
)


def kept(secret: str, *key: str, now: TableFacts = NOW) -> list[str]:
    """The columns kept of WAL in which the column was called so, and the key was another."""
    sent = [("id", INT4), (secret, TEXT), ("note", TEXT)]
    columns = tuple(RelationColumn(name, kind.oid, -1, name in key) for name, kind in sent)
    message = RelationMessage(9, "public", "person", "d", columns)
    relation = describe(message, now, {INT4.oid: INT4, TEXT.oid: TEXT})
    return [column.name for column in without(relation, now, {"ssn"}).columns]


@pytest.mark.parametrize("secret", ["ssn", "tax_id"])
def test_an_excluded_column_is_left_out_by_whatever_name_it_had(secret: str) -> None:
    assert kept(secret, "id") == ["id", "note"]


@pytest.mark.parametrize("highest", [3, 4])  # attnums are certain, and not
@pytest.mark.parametrize("secret", ["ssn", "tax_id"])
@pytest.mark.parametrize("others", [(), ("id",)])
def test_one_that_was_in_the_key_then_is_refused(
    secret: str, others: tuple[str, ...], highest: int
) -> None:
    with pytest.raises(
        SourceError, match=f"whose key includes public.person.{secret}, which is excluded"
    ):
        kept(secret, secret, *others, now=NOW._replace(highest=highest))
