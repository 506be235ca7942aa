"""Patterns of tables, and what speaks against a choice."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.routes.patterns import parse_pattern
from cdc.source.selection import Table, select_tables


def table(label: str, oid: int = 0, **changes: Any) -> Table:
    schema, _, name = label.partition(".")
    plain = Table(oid or hash(label) & 0xFFFF, schema, name, "r", "p", "d", True)
    return plain._replace(**changes)


@pytest.mark.parametrize(
    ("pattern", "schema", "name", "expected"),
    [
        ("public.orders", "public", "orders", True),
        ("public.orders", "public", "Orders", False),
        ("public.*", "public", "anything.at all", True),
        ("public.*", "public2", "t", False),
        ("*.orders", "shop", "orders", True),
        ("public.o*s", "public", "orders", True),
        ("public.a_b", "public", "axb", False),
        ("public.a%", "public", "abc", False),
        ("public.a%", "public", "a%", True),
        ('public."my.table"', "public", "my.table", True),
        ('public."*"', "public", "orders", False),
        ('public."*"', "public", "*", True),
        ('public."say ""hi"""', "public", 'say "hi"', True),
        ('"Schéma"."Größe"', "Schéma", "Größe", True),
        ("public.t+", "public", "ttt", False),
    ],
)
def test_a_pattern_matches_names_as_the_catalog_holds_them(
    pattern: str, schema: str, name: str, expected: bool
) -> None:
    assert parse_pattern(pattern).matches(schema, name) is expected


@pytest.mark.parametrize("text", ["orders", "a.b.c", "", ".", "public.", '"a.b', 'a."b"c'])
def test_what_is_not_schema_and_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not schema\.table"):
        parse_pattern(text)


def test_a_name_without_a_schema_is_told_where_one_goes() -> None:
    with pytest.raises(ValueError, match=r"Write public\.orders, or the schema it is in"):
        parse_pattern("orders")


def chosen(
    patterns: list[str], relations: list[Table], exclude: list[str] | None = None
) -> tuple[list[str], list[str]]:
    tables, problems = select_tables("shop", patterns, exclude or [], relations)
    return [t.label for t in tables], problems


def test_names_that_who_called_gave_are_not_said_to_be_a_setting() -> None:
    wanted = ["orders", "public.nope*", "public.nothing"]
    _, of_caller = select_tables("shop", wanted, [], [], setting="")
    _, of_setting = select_tables("shop", wanted, [], [])
    assert len(of_caller) == len(of_setting) == 3
    assert not any("source.tables" in problem for problem in of_caller)
    assert all("source.tables" in problem for problem in of_setting)


def test_a_star_passes_over_what_postgres_does_not_publish() -> None:
    relations = [
        table("public.t"),
        table("public.v", kind="v"),
        table("public.u", persistence="u"),
        table("public.f", kind="f"),
        table("pg_catalog.pg_class"),
        table("headwater.snapshot"),
    ]
    assert chosen(["*.*"], relations) == (["public.t"], [])


@pytest.mark.parametrize(
    ("relation", "reason"),
    [
        (table("public.t", kind="v"), "is a view"),
        (table("public.t", kind="m"), "is a materialized view"),
        (table("public.t", kind="f"), "is a foreign table"),
        (table("public.t", persistence="u"), "is unlogged"),
        (table("public.t", persistence="t"), "is temporary"),
    ],
)
def test_an_exact_name_that_cannot_be_captured_is_refused_with_the_reason(
    relation: Table, reason: str
) -> None:
    tables, problems = chosen(["public.t"], [relation])
    assert tables == []
    assert len(problems) == 1
    assert reason in problems[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"kind": "f"}, "is a foreign table"), ({"persistence": "u"}, "unlogged")],
)
def test_a_partition_whose_changes_are_not_in_wal_is_refused(
    changes: dict[str, Any], reason: str
) -> None:
    root = table("public.t", kind="p")
    leaf = table("other.leaf", ancestors=(root.oid,), **changes)
    _, problems = chosen(["public.t"], [root, leaf])
    assert len(problems) == 1
    assert problems[0].startswith("other.leaf (a partition of public.t) is ")
    assert reason in problems[0]
    plain = table("public.plain", ancestors=(root.oid,))
    assert chosen(["public.t"], [root, plain])[1] == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"identified": False}, "no primary key that is not deferrable"),
        ({"identified": False, "replica_identity": "n"}, "REPLICA IDENTITY NOTHING"),
        ({"identified": False, "replica_identity": "i"}, "whose index is gone"),
        ({"kind": "p", "unidentified_leaf": "public.leaf"}, "public.leaf (a partition of public.t"),
    ],
)
def test_a_table_without_replica_identity_is_refused_with_the_way_out(
    changes: dict[str, Any], reason: str
) -> None:
    _, problems = chosen(["public.*"], [table("public.t", **changes)])
    assert len(problems) == 1
    assert reason in problems[0]
    assert "the application's UPDATE and DELETE fail" in problems[0]
    assert "REPLICA IDENTITY FULL" in problems[0]


def test_partitions_stay_out_when_any_ancestor_is_chosen() -> None:
    relations = [
        table("public.root", 1, kind="p"),
        table("public.middle", 2, kind="p", ancestors=(1,)),
        table("public.leaf", 3, ancestors=(2, 1)),
    ]
    assert chosen(["public.*"], relations)[0] == ["public.root"]
    assert chosen(["public.*"], relations, ["public.root"])[0] == ["public.middle"]
    assert chosen(["public.leaf"], relations)[0] == ["public.leaf"]


def test_all_problems_are_reported_at_once() -> None:
    relations = [table("public.orders"), table("public.a b"), table("public.a_b")]
    _, problems = chosen(["nodot", "public.Order", "other.*", "public.a*"], relations)
    assert [problem.partition(":")[0].partition(". ")[0] for problem in problems] == [
        "source.tables",
        "table public.Order does not exist",
        "source.tables",
        "tables public.a b and public.a_b would share the topic shop.public.a_b",
    ]
    assert "Did you mean public.orders?" in problems[1]


def test_topics_that_differ_in_dots_and_underscores_are_one_for_kafka() -> None:
    _, problems = chosen(["*.*"], [table("a.b_c"), Table(9, "a.b", "c", "r", "p", "d", True)])
    assert problems[0].startswith("tables a.b_c and a.b.c would share the topic shop.a.b_c")
    _, problems = chosen(["*.*"], [table("_.schemas")])
    assert problems[0].startswith("tables _.schemas and Headwater itself would share the topic")


def test_a_pattern_that_exclude_empties_says_so() -> None:
    _, problems = chosen(["public.*"], [table("public.t")], ["public.t"])
    assert problems == ["source.tables: public.* chooses nothing that source.exclude leaves"]
