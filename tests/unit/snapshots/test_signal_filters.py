"""What a signal's filter may be, and that what is executed is only what was understood."""

from __future__ import annotations

import pytest

from cdc.errors import SourceError
from snapshots.conditions import ConditionError, recorded_condition, simple_condition
from snapshots.snapshot_on_demand import bounds_of


@pytest.mark.parametrize(
    ("given", "executed"),
    [
        ("id <= 7", '("id" <= 7)'),
        ("status = 'open'", "(\"status\" = 'open')"),
        ("name = 'it''s; --'", "(\"name\" = 'it''s; --')"),
        ('"Name" <> -1.5e3', '("Name" <> -1.5e3)'),
        (
            "Color='blue' AND (brand in ('a', 'b') or not n between 1 and 2)",
            "(\"color\" = 'blue') AND ((\"brand\" IN ('a', 'b')) OR NOT (\"n\" BETWEEN 1 AND 2))",
        ),
        ("a not like 'x%' and b is not null", '("a" NOT LIKE \'x%\') AND ("b" IS NOT NULL)'),
        ("active and not deleted", '("active") AND NOT ("deleted")'),
        ("current_user = 'x'", "(\"current_user\" = 'x')"),
        ("größe > 1", '("größe" > 1)'),
        ("a = b", '("a" = "b")'),
    ],
)
def test_simple_conditions_are_written_anew(given: str, executed: str) -> None:
    assert simple_condition(given) == executed


@pytest.mark.parametrize(
    "given",
    [
        "",
        "id = (select 1)",
        "pg_sleep(10) is null",
        "id = pg_backend_pid()",
        "id = 1; drop table item",
        "id = 1) or (id = 2",
        "(id = 1",
        "exists (select 1)",
        "id::text = '1'",
        "cast(id as text) = '1'",
        "id + 1 = 2",
        "t.id = 1",
        "id operator(public.=) 1",
        "name = E'\\\\x'",
        "name = U&'x'",
        "name = $$x$$",
        "name = 'open",
        "name similar to 'x'",
        "id = 1 -- 2",
        "id = 1 /* 2 */",
        "id in ()",
        "id = 1abc",
        "id not",
        "case when id = 1 then true end",
        "id = any('{1}')",
        "name collate \"C\" = 'x'",
        "id = 1 or",
        "not",
        "id = $1",
        "id = --1",
        "id = \u0663",
        "id = 1\u0663",
        "id = 1.\u0663",
        "id = 1e\u0663",
    ],
)
def test_whatever_else_sql_can_say_is_refused(given: str) -> None:
    with pytest.raises(ConditionError, match="at character"):
        simple_condition(given)


def test_neither_length_nor_depth_is_without_bound() -> None:
    with pytest.raises(ConditionError, match="more than 10,000 characters"):
        simple_condition("a" * 10_001)
    with pytest.raises(ConditionError, match="deep"):
        simple_condition("(" * 4_000 + "a" + ")" * 4_000)
    with pytest.raises(ConditionError, match="deep"):
        simple_condition("not " * 2_000 + "a")


@pytest.mark.parametrize(
    "given",
    [
        "a" + " or a" * 1_999,
        "a=b" + " or a=b" * 1_427,
        f"a in (b{',a' * 4_990})",
        "(" * 49 + "a" + ")" * 49,
        "not " * 49 + "a",
        "n between -1 and .5 and x is not unknown and not \"N\"\"n\" not in ('it''s', +1e3)",
    ],
    ids=lambda given: f"{given[:10]}, {len(given)}",
)
def test_what_was_written_anew_can_be_read_again(given: str) -> None:
    written = simple_condition(given)
    again = recorded_condition(written)
    assert again.replace("(", "").replace(")", "") == written.replace("(", "").replace(")", "")


def test_a_filter_that_an_earlier_version_recorded_as_it_was_is_not_executed() -> None:
    options = {"where": "id <= 7", "key_range": None, "purpose": "signal"}
    assert bounds_of(options).where == '("id" <= 7)'
    assert bounds_of({**options, "where": ""}).where == ""
    for where in ("pg_sleep(10) is null", "id = (select 1)"):
        with pytest.raises(SourceError, match=r"filter in the signal.*at character"):
            bounds_of({**options, "where": where})
        assert bounds_of({**options, "where": where, "purpose": ""}).where == where
