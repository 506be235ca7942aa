"""What cannot be treated is refused before anything is read of the source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cdc.config import Source
from cdc.errors import SourceError
from cdc.source.catalog import captured_tables, relation
from cdc.source.columns.excluded_columns import column_lists
from cdc.source.columns.treated_columns import TEXT, StreamColumns, treated
from cdc.source.postgres import Connection, connect
from cdc.source.table_lookup import table_of
from cdc.source.types import load_types
from migrations.runner import migrate
from tests.support.servers.postgres import fresh_database

TABLES = """
create table person (id int primary key, ssn text, born date, age int,
                     loud text generated always as (upper(ssn)) stored);
create table log (a int not null, b text not null, note text);
alter table log replica identity full;
create table part (id int primary key, ssn text) partition by range (id);
create table part_1 partition of part for values from (0) to (100);
"""


@pytest.fixture(scope="module")
def conn(postgres: str) -> Iterator[Connection]:
    with fresh_database(postgres) as dsn:
        with psycopg.connect(dsn, autocommit=True) as setup:
            setup.execute(TABLES)
        with connect(dsn) as made:
            yield made


def source(columns: dict[str, Any]) -> Source:
    return Source.model_validate(
        {
            "name": "s", "dsn": "x", "tables": ["public.*"], "keys": {"public.log": ["a", "b"]},
            "hash_keys": {"1": "0123456789abcdef"}, "columns": columns,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        ("public.persn", {"ssn": "mask"}, "no captured table is public.persn. Did you mean"),
        ("public.person", {"ssnn": "hash"}, "has no column ssnn. Did you mean ssn?"),
        ("public.person", {"id": "hash"}, "id is in the key of its events"),
        ("public.log", {"b": "mask"}, "b is in the key of its events"),
        ("public.part", {"id": {"truncate": 1}}, "id is in the key of its events"),
        ("public.person", {"loud": "mask"}, "loud is a generated column. Exclude it"),
        ("public.person", {"ssn": "mask"}, 'loud is computed from ssn, .* Add loud = "exclude"'),
    ],
)
def test_what_cannot_be_treated_is_refused_with_the_reason(
    conn: Connection, table: str, columns: dict[str, Any], said: str
) -> None:
    settings = source({table: columns})
    with pytest.raises(SourceError, match=said):
        column_lists(conn, settings, captured_tables(conn, settings))


def test_a_treated_column_is_text_in_the_versions_of_its_table(conn: Connection) -> None:
    """What is left needs no column list of the publication."""
    columns = {"ssn": "hash", "born": "mask", "loud": "exclude"}
    settings = source({"public.person": columns, "public.log": {"note": "mask"}})
    lists = column_lists(conn, settings, captured_tables(conn, settings))
    assert lists.keys() == {("public", "person")}
    assert "ssn" in lists["public", "person"].columns
    oid, _ = table_of(conn, "public", "person")
    plain = relation(conn, oid, load_types(conn))
    found = treated(conn, plain, settings)
    told = {one["name"]: one for one in found.describe()["columns"]}
    assert (told["born"]["oid"], told["born"]["treatment"]) == (TEXT.oid, "mask ***")
    assert told["ssn"]["treatment"] == "hash 1 861099e973b79c09"
    assert "treatment" not in told["age"]
    assert "0123456789abcdef" not in repr((found, settings))
    assert found.schema_id() != plain.schema_id()


def test_nothing_is_read_while_an_entry_names_what_is_not_there(conn: Connection) -> None:
    """The table may have been renamed: its columns would leave as they are."""
    oid, _ = table_of(conn, "public", "part")
    shape = relation(conn, oid, load_types(conn))
    with pytest.raises(SourceError, match=r"source.columns: there is no table public\.gone"):
        treated(conn, shape, source({"public.gone": {"ssn": "mask"}}))


def test_a_table_that_became_a_partition_is_still_treated(conn: Connection) -> None:
    """Its rows are its root's, whose entry says what becomes of them."""
    part = {"public.part_1": {"ssn": "mask"}}
    with pytest.raises(SourceError, match="Run `headwater init`, which adds it"):
        StreamColumns(source(part)).begin(conn)
    migrate(conn)
    conn.execute("alter table public.part detach partition public.part_1")
    StreamColumns(source(part)).begin(conn)
    conn.execute(
        "alter table public.part attach partition public.part_1 for values from (0) to (9)"
    )
    with pytest.raises(SourceError, match=r"public\.part: ssn was treated \(mask \*\*\*\)"):
        StreamColumns(source({})).begin(conn)
    StreamColumns(source({"public.part": {"ssn": "hash"}})).begin(conn)
    StreamColumns(source({"public.part": {"ssn": "publish"}})).begin(conn)
    StreamColumns(source({})).begin(conn)


def test_a_role_that_may_not_see_what_was_treated_sends_nothing(conn: Connection) -> None:
    migrate(conn)
    conn.execute("truncate headwater.treated_column")
    conn.execute("create role apart")
    try:
        conn.execute("set role apart")
        StreamColumns(source({})).begin(conn)
        conn.execute("reset role")
        StreamColumns(source({"public.person": {"ssn": "mask", "loud": "exclude"}})).begin(conn)
        conn.execute("set role apart")
        with pytest.raises(SourceError, match=r"(?s)may not read headwater.treated_column.*GRANT"):
            StreamColumns(source({})).begin(conn)
    finally:
        conn.execute("reset role")
        conn.execute("drop role apart")
