"""What is remembered of a declaration is that declaration, whatever its layout."""

from __future__ import annotations

import pytest

from jobs.generations.declaration import declaration, declared, differing
from views.parse.definition import ViewDefinition, parse_view

SQL = "select t.k, round(avg(t.n), 2) as mean from t group by t.k"


def view(sql: str = SQL) -> ViewDefinition:
    return parse_view("v", "cache", ("k",), sql)


@pytest.mark.parametrize(
    "sql", [SQL, "select id, doc -> 'a.b' as x from t", 'select id as "Id" from t -- all\n;']
)
def test_it_is_taken_again_as_it_was_written(sql: str) -> None:
    """What sqlglot makes of ``round(avg(n), 2)`` is no SQL of a view."""
    remembered = declaration(declared(view(sql)).document())
    assert remembered == declared(view(sql))
    assert remembered.parsed("v").sql == sql
    assert remembered.parsed("v").normalized == view(sql).normalized


def test_layout_and_comments_make_no_other_declaration() -> None:
    held = declared(view())
    other = declared(view("SELECT t.k, -- key\n  round(avg(t.n), 2) AS mean\nFROM t GROUP BY t.k"))
    assert held.sql != other.sql
    assert differing(held, other) == ""
    assert differing(held._replace(sql=view().normalized), other) == ""  # as remembered before


def test_another_declaration_is_told_by_what_is_another() -> None:
    held = declared(view())
    other = declared(view(SQL.replace("2)", "3)")))
    assert differing(held, other) == "sql"
    assert differing(held, other._replace(store="lake", history="log")) == "sql, store, history"
    assert differing(held._replace(sql="select now()"), held) == "sql"
