"""Columns under a collation that takes different texts for equal: no view computes with them where
nothing can compare as PostgreSQL does."""

from __future__ import annotations

import pytest

from cdc.errors import ViewError
from cdc.protocol.relation import Column, Relation, TypeInfo
from views.maintain import plan_view
from views.maintain.mirror import mirror_of
from views.parse.definition import parse_view
from views.spark.view import resolve_view
from views.table_versions import TableVersion, parse_version

CI = "public.ci"
INT4, TEXT, VARCHAR, BPCHAR = (
    TypeInfo(oid, "pg_catalog", name, "base", name)
    for oid, name in ((23, "int4"), (25, "text"), (1043, "varchar"), (1042, "bpchar"))
)
DOMAIN = TypeInfo(16_400, "public", "insensitive", "domain", "text")
TEXTS = TypeInfo(1009, "pg_catalog", "_text", "array", "array", element=TEXT)


def described(table: str, *columns: Column) -> TableVersion:
    """As the topic of schemas has it."""
    key = tuple(column.name for column in columns if column.key)
    return parse_version(Relation(1, "public", table, "d", columns, key).describe())


def texts(collation: str) -> list[Column]:
    kinds = {"code": TEXT, "short": VARCHAR, "fixed": BPCHAR, "named": DOMAIN, "tags": TEXTS}
    return [Column(name, kind, -1, False, collation=collation) for name, kind in kinds.items()]


TABLES = {
    "public.t": described(
        "t", Column("id", INT4, -1, True, False), Column("n", INT4, -1, False, False), *texts(CI)
    ),
    "public.u": described(
        "u", Column("uid", INT4, -1, True, False), Column("code", TEXT, -1, False, collation=CI)
    ),
    "public.k": described(
        "k", Column("code", TEXT, -1, True, False, collation=CI), Column("m", INT4, -1, False)
    ),
}
COMPUTED = [
    *(
        ("id", f"select id from t where {condition}")
        for condition in (
            "code = 'abc'", "code <> 'abc'", "code in ('abc', 'b')", "code between 'a' and 'b'",
            "short = 'abc'", "fixed = 'abc'", "named = 'abc'", "'abc' = any (tags)",
            "tags[1] = 'abc'", "code like 'a%'", "code is distinct from 'a'", "code = short",
            "coalesce(code, '') = 'abc'", "code::text = 'abc'", "code || '' = 'abc'",
        )
    ),
    *(
        ("id", f"select id, {value} as x from t")
        for value in (
            "nullif(code, 'a')", "case code when 'a' then 1 end", "replace(code, 'a', 'b')",
            "case when code = 'a' then 1 end", "position('a' in code)", "upper(code)",
            "greatest(code, 'x')", "split_part(code, ',', 1)", "array_to_string(tags, ',')",
        )
    ),
    ("id uid", "select t.id, u.uid from t join u on t.code = u.code"),
    ("id uid", "select t.id, u.uid from t join u using (code)"),
    ("id", "select t.id, k.m from t left join k on t.code = k.code"),
    ("code", "select code, count(*) as n from t where code is not null group by code"),
    ("n", "select n, count(distinct code) as c from t group by n"),
    ("n", "select n, min(code) as low, max(code) as high from t group by n"),
    ("n", "select n, string_agg(code, ',' order by id) as c from t group by n"),
    ("n", "select n, array_agg(id order by code) as c from t group by n"),
    ("n", "select n, count(*) filter (where code = 'a') as c from t group by n"),
    ("n", "select n, count(*) as c from t group by n having max(code) = 'a'"),
]  # fmt: skip
OF_MIRRORS = [
    ("id", "select distinct id, code from t"),
    ("id", "select id from t where code in (select code from u)"),
    ("id", "select id from t where exists (select from u where u.code = t.code)"),
    ("id", "select id, code, row_number() over (partition by code order by id) as r from t"),
    ("id", "select id, code from t order by code limit 3"),
    ("id", "select id, code from t except select uid, code from u"),
    ("id", "select id, code from t intersect select uid, code from u"),
    ("id", "select id from (select id, code from t except select uid, code from u) d"),
    ("id", "with s as (select id, code as c from t) select s.id from s where s.c = 'x'"),
    ("id", "select id, to_jsonb(t) as x from t"),
]
SHOWN = [
    ("id", "select id, code, short, fixed, named, tags from t"),
    ("id", "select id, code from t where n = 3"),
]


@pytest.mark.parametrize(("key", "sql"), COMPUTED)
def test_spark_does_not_compute_with_them(key: str, sql: str) -> None:
    with pytest.raises(ViewError, match=f"collate {CI}"):
        resolved(key, sql)


@pytest.mark.parametrize(("key", "sql"), [*SHOWN, ("code", "select code, m from k")])
def test_spark_shows_them_as_they_are(key: str, sql: str) -> None:
    resolved(key, sql)


@pytest.mark.parametrize(("key", "sql"), [*COMPUTED, *OF_MIRRORS])
def test_a_state_database_without_the_collation_does_not_compute_with_them(
    key: str, sql: str
) -> None:
    with pytest.raises(ViewError, match=f"does not have the collation {CI}"):
        planned(key, sql, embedded=True)


@pytest.mark.parametrize(("key", "sql"), SHOWN)
def test_views_over_mirrors_show_them_as_they_are(key: str, sql: str) -> None:
    planned(key, sql, embedded=True)


def test_another_state_database_may_compare_them_but_they_are_no_key() -> None:
    planned("id", "select id from t where code = 'abc'", embedded=False)
    with pytest.raises(ViewError, match="equal values can have different text"):
        planned("code", "select code, m from k", embedded=False)


def test_a_version_of_a_table_is_another_one_by_such_a_collation_alone() -> None:
    plain, other = (Relation(1, "public", "t", "d", tuple(texts(c)), ()) for c in ("", CI))
    assert plain.schema_id() != other.schema_id()
    assert "collation" not in plain.describe()["columns"][0]


def resolved(key: str, sql: str) -> None:
    view = parse_view("v", "s", key.split(), sql)
    resolve_view(view, {name: TABLES[name] for name in view.table_names})


def planned(key: str, sql: str, *, embedded: bool) -> None:
    mirrors = {name: mirror_of(version, embedded) for name, version in TABLES.items()}
    plan_view("v", sql, key.split(), mirrors)
