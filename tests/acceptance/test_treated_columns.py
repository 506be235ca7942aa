"""Views over columns that are treated before they leave the source: kept, verified, and rebuilt
when the treatment changes. No raw value is in Kafka, in the state or in a store."""

from __future__ import annotations

import hmac
from pathlib import Path

import psycopg
import pytest

import headwater
from cdc.kafka.broker import Broker
from tests.support.commands.deployment import Deployment, answer, done
from tests.support.servers.lent_jvm import Lender

MARKED = "MARKED"
KEYS = {"OLD_KEY": "an old key of the columns", "NEW_KEY": "a new key of the columns"}
COLUMNS = """
hash_keys = { old = "${OLD_KEY}", new = "${NEW_KEY}" }
encryption_keys = { old = "${OLD_KEY}" }
[source.columns]
"public.person" = { ssn = { hash = "old" }, born = "mask", iban = {truncate = 4}, tel = "encrypt" }
"public.visit" = { place = { hash = "old" } }
"""
VIEWS = {
    "joined": "select o.id, o.total, p.ssn, p.born as birthday from orders o "
    "join person p on p.id = o.person",
    "counted": "select p.id, p.ssn, (select count(*) from orders o where o.person = p.id) as n "
    "from person p",
    "direct": "select id, place, day from visit",
    "alone": "select id, iban, born, name, tel from person where name <> 'z'",
}
REFUSED = {
    "filtered": "select id from person where ssn = 'x'",
    "computed": "select id, upper(iban) as iban from person",
    "grouped": "select born as id, count(*) as n from person group by born",
}


def view(name: str, sql: str) -> str:
    return f'[views.{name}]\nstore = "base"\nkey = ["id"]\nsql = "{sql}"\n'


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
[tables."public.visit"]
mirror = false
"""
    deployment = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    deployment.settings, deployment.environment = COLUMNS, KEYS
    deployment.execute(
        "create table person (id int primary key, ssn text, born date, iban text, name text, "
        "tel text)",
        "create table visit (id int primary key, place point, day date)",
        "insert into visit select i, point(i, 7777), '2024-01-01' from generate_series(1, 50) i",
        "create table orders (id int primary key, person int, total numeric(10, 2))",
        f"insert into person select i, '{MARKED}' || i, date '1777-07-07', 'DE8{MARKED}' || i, "
        f"chr(97 + i % 26), '{MARKED}' || i from generate_series(1, 100) i",
        "insert into person (id) values (101)",
        "insert into orders select i, i % 120, i from generate_series(1, 300) i",
    )
    done(deployment, "init", "--no-snapshot")
    return deployment


def hashed(value: str, name: str) -> str:
    key = KEYS[f"{name.upper()}_KEY"].encode()
    return f"{name}:{hmac.digest(key, value.encode(), 'sha256').hex()}"


def kafka_holds(deployment: Deployment) -> str:
    def read(broker: Broker) -> str:
        topics = broker.topics(f"{deployment.name}.")
        ends = broker.end_offsets(topics)
        return repr([
            (record.key, record.value)
            for topic in topics
            for partition, end in ends[topic].items()
            for record in broker.read(topic, partition, 0, end)
        ])  # fmt: skip

    return answer(deployment.bootstrap, read)


def assert_refused(deployment: Deployment) -> None:
    """Views that compute with what is treated."""
    deployment.extra += "".join(view(name, sql) for name, sql in REFUSED.items())
    _, found = deployment.check()
    faults = {one["check"]: one["message"] for one in found["error"]}
    assert faults.keys() == {f"view {name}" for name in REFUSED}
    for fault in faults.values():
        assert "cannot be computed with: source.columns treats it" in fault


def assert_nothing_raw(home: Path, *texts: str) -> None:
    """Neither in texts nor in any file of a deployment."""
    for text in texts:
        assert MARKED not in text
        assert "1777" not in text
        assert ",7777)" not in text
    for path in home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert MARKED.encode() not in content, path
            assert not any(key.encode() in content for key in KEYS.values()), path


@pytest.mark.timeout(1800)
def test_views_show_treated_columns_and_are_verified(
    deployment: Deployment, store_database: str, tmp_path: Path
) -> None:
    plain = deployment.extra
    names = {name: f"{deployment.name}_{name}" for name in VIEWS}
    deployment.extra = plain + "".join(view(names[name], sql) for name, sql in VIEWS.items())
    kept = deployment.extra
    assert_refused(deployment)
    deployment.extra = kept

    def equal() -> None:
        for name in names.values():
            said = done(deployment, "verify", name, "--timeout", "240")
            assert "equal at LSN" in said

    def rows(
        conn: psycopg.Connection[tuple[object, ...]], name: str, id_: int
    ) -> tuple[object, ...]:
        query = f'select * from views."{names[name]}" where id = {id_}'
        (row,) = conn.execute(query.encode()).fetchall()
        return row

    def told(id_: int) -> tuple[str, str]:
        """The key's name and the value of an encrypted column, as who has the keys reads it."""
        (text,) = [one for one in rows(conn, "alone", id_) if ":" in str(one)]
        keys = {name: KEYS[f"{name.upper()}_KEY"] for name in ("old", "new")}
        return str(text).partition(":")[0], headwater.decrypt(str(text), keys)

    with psycopg.connect(store_database, autocommit=True) as conn:
        with deployment.running("capture") as capture:
            for name in names.values():
                done(deployment, "view", "create", name)
            with deployment.running("apply"):
                deployment.execute(
                    f"update person set ssn = '{MARKED}!' where id = 2",
                    f"insert into person values (102, '{MARKED}!', '1777-01-01', '{MARKED}', 'n',"
                    f" '{MARKED}')",
                    "update person set id = 103 where id = 3",
                    "update visit set place = '(1,7777)' where id = 2",
                    "delete from person where id = 4",
                    "update orders set total = 7 where id = 2",
                )
                equal()
            deployment.captured(capture)
        assert rows(conn, "joined", 2)[1:4] != ()
        assert hashed(f"{MARKED}!", "old") in rows(conn, "joined", 2)
        assert hashed(f"{MARKED}!", "old") in rows(conn, "counted", 2)
        assert hashed("(1,7777)", "old") in rows(conn, "direct", 2)
        assert {"DE8M", "***"} < set(rows(conn, "alone", 5))
        assert told(102) == ("old", MARKED)
        deployment.settings = COLUMNS.replace('hash = "old"', 'hash = "new"', 1).replace(
            'encryption_keys = { old = "${OLD_KEY}"',
            'encryption_keys = { old = "${OLD_KEY}", new = "${NEW_KEY}"',
        )
        with deployment.running("capture"), deployment.running("apply"):
            deployment.execute("update person set name = 'm' where id = 5")
            for name in names.values():
                done(deployment, "view", "rebuild", name)
            equal()
        assert told(102) == ("new", MARKED)
        assert told(7) == ("new", f"{MARKED}7"), "of a row that has not changed"
        assert hashed(f"{MARKED}!", "new") in rows(conn, "joined", 2)
        assert hashed(f"{MARKED}!", "new") in rows(conn, "counted", 2)
        stored = repr([conn.execute(f'select * from views."{n}"'.encode()).fetchall()
                       for n in names.values()])  # fmt: skip
    deployment.settings = deployment.settings.replace(' born = "mask",', "")
    refused = deployment.run("verify", names["alone"])
    assert "public.person: born was treated (mask ***), and has no entry now" in refused.stderr
    assert_nothing_raw(tmp_path, stored, kafka_holds(deployment))
