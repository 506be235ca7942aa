"""A view in another PostgreSQL, on the whole path: created, applied, verified, rebuilt, dropped."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.support.commands.deployment import Deployment, done, listed
from tests.support.servers.lent_jvm import Lender

TYPES = "create type mood as enum ('good', 'so, so')"
TABLE = """
create table things (
    id uuid primary key, name text, price numeric(12,4), amount numeric, weight real,
    size double precision, ok boolean, day date, at timestamp, seen timestamptz, data bytea,
    doc jsonb, said json, span interval, host inet, mood mood, numbers int[], amounts numeric[],
    ids uuid[], stamps timestamptz[], note text)
"""
ROWS = """
insert into things
select md5(i::text)::uuid, 'thing ' || i || E' \\t\\\\ "ü"',
    i * 1.5, i * 1.10, i / 3.0, i / 7.0, i % 2 = 0,
    date '2024-02-28' + i, timestamp '2024-02-29 12:00:00.5' + i * interval '1 minute',
    now() - i * interval '1 day', decode(md5(i::text), 'hex'), jsonb_build_object('n', i),
    '{"b": 1,  "a": 2}', i * interval '1 day 2 hours', '192.168.0.1', 'so, so',
    array[i, null, 2], array[1.50, i, 'NaN'], array[md5('a')::uuid], array[now(), null], null
from generate_series(1, 300) as i
"""
LARGE = """
update things set note = (select string_agg(md5(random()::text), '') from generate_series(1, 500))
where id::text <= '2'
"""
SQL = "select * from things"
OTHER = "select id, upper(name) as name, price * 2 as twice, doc from things where ok"


@pytest.fixture
def deployment(
    tmp_path: Path, source_name: str, database: str, kafka: str, store_database: str, lender: Lender
) -> Deployment:
    extra = f"""
[stores.base]
kind = "postgres"
dsn = "{store_database}"
target_schema = "views"
[apply]
state = "{tmp_path}/state"
master = "local[2]"
spark = {{ "spark.driver.memory" = "1g" }}
[views.{source_name}_things]
store = "base"
key = ["id"]
sql = "{SQL}"
"""
    deployment = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    deployment.execute(TYPES, TABLE, ROWS)
    done(deployment, "init", "--no-snapshot")  # Kafka has nothing of what is there
    return deployment


@pytest.mark.timeout(1800)
def test_a_view_in_postgresql_is_kept_rebuilt_and_dropped(
    deployment: Deployment, store_database: str
) -> None:
    view = f"{deployment.name}_things"

    def equal() -> None:
        assert "equal at LSN" in done(deployment, "verify", view, "--timeout", "240")

    with deployment.running("capture"), psycopg.connect(store_database, autocommit=True) as conn:
        late = deployment.run("wait", view, "--timeout", "2")
        assert (late.returncode, "was not built yet" in late.stderr) == (3, True), late.stderr
        unwell = deployment.run("health", "--views", "--max-age", "600")
        assert f"view {view} was not built yet" in unwell.stderr
        assert "is live: 300 rows" in done(deployment, "view", "create", view)
        done(deployment, "wait", view)
        declared = deployment.extra
        deployment.extra = declared.replace(SQL, OTHER)
        again = deployment.run("view", "create", view)
        assert (again.returncode, "headwater view rebuild" in again.stderr) == (2, True)
        deployment.extra = declared
        with deployment.running("apply"):
            deployment.execute(
                LARGE,
                "update things set name = name || '!' where id::text <= '4'",  # notes stay unsent
                "delete from things where id::text > 'f'",
                "update things set id = md5(id::text)::uuid where id::text between '5' and '6'",
                "alter table things add column late int",
                "update things set late = 7 where id::text <= '3'",
            )
            equal()
            table = f'views."{view}"'
            conn.execute(f"update {table} set name = 'bent' where id::text <= '1'".encode())
            repaired = deployment.run("verify", view, "--repair", "--timeout", "240")
            assert "bent" not in str(conn.execute(f"select name from {table}".encode()).fetchall())
            assert repaired.returncode == 0, repaired.stdout + repaired.stderr
            deployment.extra = deployment.extra.replace(SQL, OTHER)
            assert "generation 2 is live" in done(deployment, "view", "rebuild", view)
            deployment.execute("update things set ok = not ok where id::text <= '3'")
            equal()
            assert "generation 1 is live again, instead of 2" in done(
                deployment, "view", "rollback", view
            )
            equal()
        assert listed(deployment)["live"] == 1
        done(deployment, "view", "drop", view, "--yes")
        assert (
            conn.execute("select * from pg_class where relname like %s", [f"{view}%"]).fetchall()
            == []
        )
