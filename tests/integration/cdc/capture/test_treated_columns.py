"""``source.columns``: values that are masked, truncated or hashed leave the source only so, in the
stream and in snapshots alike."""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from hashlib import sha512

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from cdc.kafka.broker import Broker
from headwater import decrypt
from tests.support.commands.deployment import Deployment, Event, answer, done, fold

MARKED, BORN = "MARKED", "1777-07-07"
OLD, NEW = "an old key of the columns", "a new key of the columns"
COLUMNS = """
hash_keys = { old = "${OLD_KEY}", new = "${NEW_KEY}" }
encryption_keys = { new = "${NEW_KEY}" }
[source.columns."public.person"]
ssn = "hash"
tax = { hash = "old" }
born = "mask"
iban = { truncate = 4 }
doc = { mask = "gone" }
phone = "encrypt"
[source.columns."public.whole"]
secret = "hash"
"""


_SEALED = AESSIV(sha512(NEW.encode()).digest()).encrypt(MARKED.encode(), None)
ENCRYPTED = f"new:{b64encode(_SEALED).decode()}"
"""The phone of everybody; it is the column's default, which DDL events would tell."""


def hashed(value: str, name: str = "new", key: str = NEW) -> str:
    return f"{name}:{hmac.digest(key.encode(), value.encode(), 'sha256').hex()}"


def person(number: int, name: str) -> dict[str, object]:
    """What may leave of a row that ``insert`` writes."""
    value = f"{MARKED}{number}"
    return {
        "id": number, "ssn": hashed(value), "tax": hashed(value, "old", OLD), "born": "***",
        "iban": "DE8é", "doc": "gone", "name": name, "phone": ENCRYPTED,
    }  # fmt: skip


def insert(first: int, last: int, name: str) -> str:
    return (
        f"insert into person select i, '{MARKED}' || i, '{MARKED}' || i, date '{BORN}', "
        f"'DE8é{MARKED}' || i, repeat('{MARKED}', 500), '{name}' "
        f"from generate_series({first}, {last}) i"
    )


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute(
        "create table person (id int primary key, ssn text not null, tax varchar(40), born date, "
        f"iban text, doc text, name text, phone text default '{MARKED}')",
        "alter table person alter doc set storage external",
        "create table whole (id int primary key, secret int, name text)",
        "alter table whole replica identity full",
        insert(1, 2, "a"),
        "insert into person (id, ssn, name) values (3, '', 'b')",
        "insert into whole values (1, 7170, 'a')",
    )
    deployment.environment = {"OLD_KEY": OLD, "NEW_KEY": NEW}
    deployment.settings = COLUMNS
    deployment.extra = '[capture]\noversized = "dead_letter"\n'
    return deployment


def everything(shop: Deployment) -> str:
    """All records of the source's topics, and what capture has said."""

    def read(broker: Broker) -> str:
        topics = broker.topics(f"{shop.name}.")
        ends = broker.end_offsets(topics)
        found = repr([
            (topic, record.key, record.value, list(record.headers))
            for topic in topics
            for partition, end in ends[topic].items()
            for record in broker.read(topic, partition, 0, end)
        ])  # fmt: skip
        assert f"{shop.name}.__dead_letters" in found
        return found

    return answer(shop.bootstrap, read) + shop.log("capture")


def assert_no_marked_value(shop: Deployment) -> None:
    found = everything(shop)
    assert MARKED not in found
    assert BORN not in found
    assert '"secret":7' not in found
    assert OLD not in found
    assert NEW not in found


def of_key(events: list[Event], id_: int) -> list[Event]:
    return [event for event in events if event.key == {"id": id_}]


def test_values_are_the_same_in_snapshots_and_in_the_stream_and_no_other_leaves(
    shop: Deployment,
) -> None:
    done(shop, "init", "--ddl-events")
    with shop.running("capture") as capture:
        shop.execute(
            insert(4, 4, "c"),
            insert(10, 600, "many"),  # by column
            "update person set name = 'd' where id = 1",  # doc is not sent
            "update person set id = 5 where id = 2",  # and is looked up
            f"update person set ssn = '{MARKED}!' where id = 4",
            "delete from person where id = 3",
            "update whole set secret = 7171, name = 'b'",
            "delete from whole",
            f"insert into person (id, ssn, name) values (7, '{MARKED}7', repeat('x', 2000000))",
        )
        shop.captured(capture)
        rows = fold(shop.events("person"))
        shop.execute("delete from person where id = 7")
        snapshot = shop.run("snapshot", "start", "public.person")
        assert snapshot.returncode == 0, snapshot.stderr
        shop.execute(
            "alter table person rename ssn to social",
            insert(8, 8, "e"),
            "alter table person rename to people",
            f"insert into people (id, social, name) values (9, '{MARKED}9', 'f')",
        )
        shop.captured(capture)
    unsent = {"doc": "__debezium_unavailable_value"}
    assert rows['{"id": 4}'] == person(4, "c") | {"ssn": hashed(f"{MARKED}!")} | unsent
    assert rows['{"id": 5}'] == person(2, "a") | {"id": 5}
    assert [rows[f'{{"id": {i}}}'] for i in (10, 311, 600)] == [
        person(i, "many") for i in (10, 311, 600)
    ]
    first, changed = of_key(shop.events("person"), 1)
    assert first.value is not None
    assert changed.value is not None
    assert first.value["after"] == person(1, "a")
    assert changed.value["after"] == person(1, "d") | unsent
    _, gone, _ = of_key(shop.events("person"), 3)
    assert gone.value is not None
    last = of_key(shop.events("person"), 8)[-1].value
    assert last is not None
    named = person(8, "e")
    assert last["after"] == {("social" if k == "ssn" else k): v for k, v in named.items()}
    (renamed,) = shop.events("people")
    assert renamed.value is not None
    assert renamed.value["after"]["social"] == hashed(f"{MARKED}9")
    whole = [event.value for event in shop.events("whole") if event.value]
    assert [(one["before"] or {}).get("secret") for one in whole] == [
        None, hashed("7170"), hashed("7171"),
    ]  # fmt: skip
    topics = answer(shop.bootstrap, lambda broker: broker.topics(f"{shop.name}.__snapshot."))
    (again,) = [topic for topic in topics if topic.endswith("public.person")]
    assert fold(shop.topic(again)) == {
        key: row | {"doc": "gone"} if row["doc"] == unsent["doc"] else row
        for key, row in rows.items()
    }
    assert decrypt(ENCRYPTED, {"new": NEW}) == MARKED
    assert re.search('"treatment": ?"hash new [0-9a-f]{16}"', everything(shop))
    assert re.search('"name": ?"phone"[^}]*"default": ?null', everything(shop))
    assert_no_marked_value(shop)
    refused = shop.run("capture")
    assert refused.returncode == 1
    assert "source.columns: no captured table is public.person" in refused.stderr


def test_wal_from_before_the_setting_is_treated_when_it_is_read(shop: Deployment) -> None:
    shop.settings = ""
    shop.execute("delete from person", "delete from whole")
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
    shop.execute(
        insert(1, 1, "a"),
        f"insert into person (id, ssn, name) values (2, '{MARKED}2', repeat('x', 2000000))",
        "alter table person rename ssn to social",
        insert(3, 300, "b"),
        "alter table person rename to people",
    )
    shop.settings = COLUMNS.replace("ssn", "social").replace("public.person", "public.people")
    with shop.running("capture") as capture:
        shop.captured(capture)
        shop.execute("create table added (id int primary key, note text)")
        shop.settings += '[source.columns."public.added"]\nnote = "mask"\n'
        refused = shop.run("table", "add", "public.added")
        assert "which the running capture does not know" in refused.stderr
    rows = fold(shop.events("person"))
    assert rows['{"id": 1}'] == person(1, "a")
    assert rows['{"id": 200}']["social"] == hashed(f"{MARKED}200")
    assert len(rows) == 299
    assert_no_marked_value(shop)


def refused(shop: Deployment, *arguments: str) -> str:
    """What a command says that ends with an error."""
    ended = shop.run(*arguments, timeout_s=60)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    return ended.stderr


def test_what_was_treated_is_not_sent_as_it_is_before_the_configuration_says_so(
    shop: Deployment,
) -> None:
    """Another column has the name of a treated one; an entry is gone with WAL unread; a column is
    gone with its entry; a key is replaced under its name; and then a treatment is lifted."""
    shop.init()
    shop.execute(
        "alter table person rename ssn to ssn_old",
        "alter table person add ssn text, alter ssn_old drop not null",
        f"insert into person (id, ssn, ssn_old, tax, born) "
        f"values (4, '{MARKED}4', '{MARKED}4', '{MARKED}4', '{BORN}')",
    )
    moved = "public.person: ssn_old was treated (hash new "
    for command in (["capture"], ["snapshot", "start", "public.person"]):
        assert moved in refused(shop, *command)
    _, found = shop.check()
    assert moved in found["error"][0]["message"]
    assert 'ssn_old = "publish"' in found["error"][0]["message"]
    shop.settings = COLUMNS.replace('ssn = "hash"', 'ssn = "hash"\nssn_old = "mask"')
    assert "capture has not been started" in refused(shop, "snapshot", "start", "public.person")
    kept = shop.settings
    shop.settings = kept.replace('tax = { hash = "old" }\n', "")
    assert "public.person: tax was treated (hash old " in refused(shop, "capture")
    shop.settings = kept
    shop.environment["NEW_KEY"] = f"{NEW}!"
    assert "new is not the key that values were treated with" in refused(shop, "capture")
    shop.environment["NEW_KEY"] = NEW
    shop.execute("alter table person drop tax")
    assert "has no column tax" in refused(shop, "capture")
    shop.settings = kept.replace('tax = { hash = "old" }\n', "")
    with shop.running("capture") as capture:
        shop.captured(capture)
    (sent,) = of_key(shop.events("person"), 4)
    assert sent.value is not None
    after = sent.value["after"]
    assert (after["ssn"], after["ssn_old"], after["born"]) == (hashed(f"{MARKED}4"), "***", "***")
    assert "tax" not in after
    assert MARKED not in repr(shop.events("person")) + shop.log("capture")
    shop.execute(f"insert into person (id, born) values (5, '{BORN}')")
    shop.settings = shop.settings.replace('born = "mask"', 'born = "publish"')
    with shop.running("capture") as capture:
        shop.captured(capture)
        shop.settings = shop.settings.replace('born = "publish"', "")
        snapshot = shop.run("snapshot", "start", "public.person")
        assert snapshot.returncode == 0, snapshot.stderr
    (lifted,) = of_key(shop.events("person"), 5)
    assert lifted.value is not None
    assert lifted.value["after"]["born"].startswith(BORN)
