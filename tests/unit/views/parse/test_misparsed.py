"""SQL that does not parse is told with its place and in words, not in the parser's."""

from __future__ import annotations

import pytest

from cdc.errors import ViewError
from views.parse.definition import parse_view


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("selec id from t", "line 1, column 10: does not parse at 'from', behind 'selec id': it has"
         " no meaning there. Did you mean SELECT for 'selec'?"),
        ("select id\nform t", "line 2, column 6: does not parse at 't', behind 'form': it has no"
         " meaning there. Did you mean FROM for 'form'?"),
        ("select id from t wehre id = 1", "line 1, column 24: does not parse at 'id', behind"
         " 'select id from t wehre': it has no meaning there. Did you mean WHERE for 'wehre'?"),
        ("select id from t where", "line 1, column 18: does not parse at 'where', behind"
         " 'select id from t': what belongs to it is missing"),
        ("select id,\n  upper(note as n\nfrom t", "line 2, column 14: does not parse at 'as',"
         " behind 'upper(note': ) is missing"),
        ("select id from t where a = = 1", "line 1, column 28: does not parse at '=', behind"
         " 'select id from t where a =': what belongs to it is missing"),
        ("select case when a then 1 from t", "line 1, column 25: does not parse at '1', behind"
         " 'select case when a then': CASE has no END"),
        ("select id,\n'it's' as x\nfrom t", "line 2, column 6: does not parse: ' opens here and"
         " is not closed. Write it twice inside of a text: 'it''s'."),
        ('select "id from t', 'line 1, column 8: does not parse: " opens here and is not closed'),
    ],
)  # fmt: skip
def test_where_and_what(sql: str, said: str) -> None:
    with pytest.raises(ViewError) as caught:
        parse_view("v", "s", ["id"], sql)
    assert str(caught.value) == f"views.v.sql, {said}"


@pytest.mark.parametrize("sql", ["select id /* all", "select $a$ from t", "select id from t $$"])
def test_what_has_no_end(sql: str) -> None:
    with pytest.raises(ViewError, match=r"does not parse.*(is not closed|no meaning)"):
        parse_view("v", "s", ["id"], sql)


def test_no_word_of_the_parser_is_shown() -> None:
    whole = (
        "select o.id, case when a then b else c end as x, upper(n) as u from t o "
        "left join s on s.id = o.id and s.k in (1, 2) where o.a between 1 and 2 "
        "group by o.id having count(*) > 1"
    )
    for end in range(7, len(whole)):
        for sql in (whole[:end], whole[:end] + " )", whole[:end] + " = ="):
            assert not any(word in _said(sql) for word in ("sqlglot", "class", "Expecting"))


def _said(sql: str) -> str:
    try:
        parse_view("v", "s", ["id"], sql)
    except ViewError as error:
        return str(error)
    return ""
