"""How findings are shown: on a terminal of 80 columns, and as one script of SQL."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from headwater.check import Finding
from headwater.check.finding import by_sql
from headwater.cli.check import script, show

USAGE = 'GRANT USAGE ON SCHEMA "public" TO "cap"'
SELECT = 'GRANT SELECT ON "public"."orders", "public"."customers" TO "cap"'
FINDINGS = [
    Finding("ok", "version", "PostgreSQL 18"),
    by_sql(
        "error", "select", "role cap may not read public.orders, public.customers", USAGE, SELECT
    ),
    Finding(
        "warning", "max_slot_wal_keep_size", "a slot may hold back WAL", "ALTER SYSTEM SET a = '1'",
        ("ALTER SYSTEM SET a = '1'",),
    ),
    by_sql("error", "again", "said twice", SELECT),
]  # fmt: skip


def test_the_script_has_each_statement_once_and_only_comments_for_warnings() -> None:
    assert list(script(FINDINGS)) == [
        "-- error: role cap may not read public.orders, public.customers",
        f"{USAGE};",
        f"{SELECT};",
        "-- warning: a slot may hold back WAL",
        "-- ALTER SYSTEM SET a = '1';",
    ]


def test_what_to_do_stands_below_what_was_found_in_80_columns() -> None:
    stream = StringIO()
    show(FINDINGS, Console(file=stream, width=80))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "max_slot_wal_keep_size" in stream.getvalue()
    assert [line.strip() for line in lines[-3:]] == [
        "headwater check --sql prints, as one script, the SQL of: select,",
        "max_slot_wal_keep_size, again",
        "1 ok, 1 warning, 2 errors",
    ]
    print(stream.getvalue())
