"""The change stream over real servers: what a client holds is what the source has."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.commands.deployment import Deployment
from tests.support.serve.served import Follower, Following, Served, source_rows
from tests.support.servers.postgres import fresh_database
from tests.support.waiting import wait_until

ROWS = 3_000


@pytest.fixture(scope="module")
def served(postgres: str, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A table in three partitions, captured and served."""
    with fresh_database(postgres) as source:
        home = tmp_path_factory.mktemp("served")
        deployment = Deployment(home, f"t{random.randbytes(5).hex()}", source, kafka)
        deployment.extra = "partitions = 3\n"
        deployment.execute(
            "create table item (id int primary key, name text, n int, body text)",
            f"insert into item select i, 'item ' || i, i % 10, null "
            f"from generate_series(1, {ROWS}) i",
            "create table other (id int primary key, word text)",
            "insert into other values (1, 'one')",
            "create table keyless (word text)",
            "alter table keyless replica identity full",
        )
        deployment.init()
        with deployment.running("capture") as capture:
            deployment.captured(capture)
            made = Served(deployment)
            with made.running():
                yield made


class Writer(threading.Thread):
    """Changes of all kinds, in transactions, until it is told to end."""

    def __init__(self, dsn: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._dsn, self._chance = dsn, random.Random(seed)
        self.ending = threading.Event()
        self.fault: Exception | None = None

    def run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as conn:
                while not self.ending.is_set():
                    with conn.transaction():
                        for _ in range(self._chance.randint(1, 20)):
                            conn.execute(*self._change())
        except Exception as error:
            self.fault = error

    def _change(self) -> tuple[bytes, list[object]]:
        chance, key = self._chance, self._chance.randint(1, ROWS + 500)
        kind = chance.random()
        if kind < 0.55:
            return b"update item set name = %s, n = n + 1 where id = %s", [chance.random(), key]
        if kind < 0.65:
            large = "".join(chance.choices("abcdefghij", k=9_000))
            return b"update item set body = %s where id = %s", [large, key]
        if kind < 0.8:
            return b"delete from item where id = %s", [key]
        if kind < 0.85:
            new = chance.randint(ROWS + 1_000, ROWS + 9_000)
            return (
                b"update item set id = %s where id = %s and not exists "
                b"(select from item where id = %s)",
                [new, key, new],
            )
        return (
            b"insert into item values (%s, %s, %s) on conflict (id) do update set n = excluded.n",
            [key, f"new {key}", chance.randint(0, 9)],
        )


def complete(one: Following) -> None:
    wait_until(lambda: one.follower.complete, "the snapshot")


def more_events(one: Following, count: int) -> None:
    seen = len(one.ids)
    wait_until(lambda: len(one.ids) > seen + count, "changes to come")


def holds(one: Following, wanted: dict[tuple[Any, ...], Any]) -> None:
    wait_until(lambda: one.rows == wanted, "the last change")


def test_rows_and_changes_are_the_source_while_it_is_written_and_the_server_is_killed(
    served: Served, tmp_path: Path
) -> None:
    """Nothing is lost and nothing comes twice: no id, and no change."""
    del tmp_path
    own = Served(served.deployment)
    own.settings = f'spool = "{served.deployment.home / "own"}"\nsnapshot_max_age = "10min"'
    writer = Writer(served.deployment.dsn, 7)
    writer.start()
    followers = [own.follower("item"), own.follower("item"), own.follower("public.item")]
    try:
        for turn in range(3):
            with own.running() as process:
                followers[turn].__enter__()
                wait_until(lambda: followers[0].follower.complete, "the snapshot")
                for one in followers[: turn + 1]:
                    more_events(one, 50)
                if turn < 2:
                    process.kill()
                    process.wait(30)
                    continue
                writer.ending.set()
                writer.join()
                assert writer.fault is None
                served.deployment.execute("insert into item values (0, 'the last one', 1)")
                wanted = source_rows(served.deployment, "select * from item")
                for one in followers:
                    holds(one, wanted)
    finally:
        writer.ending.set()
        for one in followers:
            one.__exit__()
        served.write()
    for one in followers:
        assert len(set(one.ids)) == len(one.ids)
        assert one.names.count("snapshot-begin") == 1
        assert one.names.index("snapshot-end") == one.names.count("row") + 1


def test_a_truncate_empties_the_table_in_all_partitions(served: Served) -> None:
    served.deployment.execute(
        "create table short (id int primary key, n int)",
        "insert into short select i, i from generate_series(1, 50) i",
    )
    done = served.deployment.run("table", "add", "public.short")
    assert done.returncode == 0, done.stderr
    with served.follower("short") as one:
        wait_until(lambda: len(one.rows) == 50, "the rows")
        served.deployment.execute(
            "begin; update short set n = n + 1; truncate short;"
            "insert into short select i, i from generate_series(40, 60) i; commit"
        )
        wanted = source_rows(served.deployment, "select * from short")
        wait_until(lambda: one.rows == wanted, "the truncate")


def test_a_filter_holds_the_rows_that_meet_it(served: Served) -> None:
    """Rows enter and leave it, by updates, deletes and changes of their key."""
    execute = served.deployment.execute
    execute("insert into other select i, 'open' from generate_series(10, 20) i")
    query = "select * from other where word = 'open' and id > 12"
    with served.follower("other", "?where=word%20%3D%20'open'%20and%20id%20>%2012") as one:
        wait_until(lambda: one.rows == source_rows(served.deployment, query), "the snapshot")
        execute(
            "update other set word = 'closed' where id in (10, 13)",
            "update other set word = 'open' where id = 1",
            "update other set id = 113 where id = 15",
            "update other set id = 7 where id = 16",
            "delete from other where id in (11, 17)",
            "insert into other values (30, 'open'), (31, 'closed')",
            "update other set word = 'open' where id = 31",
        )
        wait_until(lambda: one.rows == source_rows(served.deployment, query), "the changes")
    assert "left" in one.names
    assert len(set(one.ids)) == len(one.ids)


def test_a_key_is_followed_alone(served: Served) -> None:
    with served.follower("other", "?key=99") as one:
        wait_until(lambda: one.follower.complete, "the snapshot")
        assert one.rows == {}
        served.deployment.execute(
            "insert into other values (98, 'x'), (99, 'y')",
            "update other set word = 'z' where id = 99",
        )
        wait_until(lambda: one.rows == {(99,): {"id": 99, "word": "z"}}, "its change")
        assert one.names == ["snapshot-begin", "snapshot-end", "change", "change"]


def polled(served: Served, table: str, after: str, wait: str = "20") -> tuple[list[Any], str]:
    answer = served.get(f"/changes/{table}", after=after, wait=wait)
    assert answer.status == 200, answer.body
    return answer.document["events"], answer.document["next"]


def test_a_long_poll_gives_the_same_events(served: Served) -> None:
    follower, place = Follower(served.base, "other"), ""
    while not follower.complete or follower.rows != source_rows(
        served.deployment, "select * from other"
    ):
        events, place = polled(served, "other", place)
        for one in events:
            follower.take(SimpleNamespace(
                id=one["id"], name=one["event"], data=json.dumps(one["data"]), retry_ms=None
            ))  # fmt: skip
    assert polled(served, "other", place, wait="0")[0] == []
    served.deployment.execute("insert into other values (200, 'polled')")
    events, after = polled(served, "other", place)
    assert [one["data"]["after"]["id"] for one in events] == [200]
    assert events[0]["id"] == after
    assert polled(served, "other", place)[0] == events, "the same id gives the same events"


def test_changes_alone_begin_now(served: Served) -> None:
    with served.follower("other", "?snapshot=false") as one:
        wait_until(one.opened.is_set, "the stream to be open")
        served.deployment.execute("insert into other values (300, 'new')")
        wait_until(lambda: one.ids, "the change")
        assert one.names == ["change"]


def test_many_clients_cost_one_read_of_the_table(served: Served) -> None:
    own = Served(served.deployment)
    own.settings = f'spool = "{served.deployment.home / "shared"}"\nsnapshot_max_age = "10min"'
    before = own.log().count("table_spooled")
    with own.running():
        followers = [own.follower("other") for _ in range(30)]
        try:
            for one in followers:
                one.__enter__()
            for one in followers:
                complete(one)
            assert own.log().count("table_spooled") == before + 1
        finally:
            for one in followers:
                one.__exit__()
    served.write()


def test_a_topic_that_no_longer_holds_the_position_is_gone_and_the_way_back_is_a_snapshot(
    served: Served,
) -> None:
    _, place = polled(served, "other", "", wait="1")
    while not place.startswith("l1"):
        _, place = polled(served, "other", place, wait="1")
    parts = place.split(".")
    for offsets, topic, reason in (
        ("zzzzzz-zzzzzz-zzzzzz", parts[2], "future"),
        (parts[4], "recreated", "recreated"),
        ("0", parts[2], "partitions"),
    ):
        wrong = ".".join([*parts[:2], topic, parts[3], offsets])
        answer = served.get("/changes/other", after=wrong, wait="1")
        assert (answer.status, answer.document["reason"]) == (410, reason)
        assert answer.headers["content-type"] == "application/problem+json"
        late = served.follower("other")
        late.follower.position = wrong
        with late as one:
            complete(one)
        assert one.names[:2] == ["gone", "snapshot-begin"]


def test_retention_is_told_to_who_comes_back_too_late(served: Served, kafka: str) -> None:
    _, place = polled(served, "keyless", "")
    while not place.startswith("l1"):
        _, place = polled(served, "keyless", place, wait="1")
    served.deployment.execute("insert into keyless values ('a'), ('b')")
    topic = f"{served.deployment.name}.public.keyless"
    wait_until(lambda: served.deployment.records("keyless") >= 2, "the changes in Kafka")
    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        done.result()
    answer = served.get("/changes/keyless", after=place, wait="1")
    assert (answer.status, answer.document["reason"]) == (410, "retention")


def test_a_client_that_never_reads_is_cut_and_slows_no_other(served: Served) -> None:
    own = Served(served.deployment)
    own.settings = f'spool = "{served.deployment.home / "slow"}"\nclient_buffer_mb = 1'
    with own.running():
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(("127.0.0.1", own.port))
        deaf.sendall(b"GET /changes/other?snapshot=false HTTP/1.1\r\nHost: localhost\r\n\r\n")
        deaf.recv(10)
        with own.follower("other", "?snapshot=false") as one:
            wait_until(lambda: own.metric("headwater_serve_streams") == 2, "both streams")
            for i in range(30):
                served.deployment.execute(
                    f"insert into other select i, repeat('x', 1000) from generate_series("
                    f"{10_000 + 200 * i}, {10_199 + 200 * i}) i"
                )
            wait_until(lambda: len(one.ids) == 6_000, "all changes")
            wait_until(
                lambda: own.metric('headwater_serve_streams_cut_total{reason="slow"') == 1,
                "the deaf client to be cut",
            )
            assert own.metric("headwater_serve_streams") == 1
        assert len(set(one.ids)) == 6_000
        deaf.close()
    served.write()


def test_at_the_cap_others_come_later_and_nobody_is_evicted(served: Served) -> None:
    own = Served(served.deployment)
    own.settings = f'spool = "{served.deployment.home / "cap"}"\nmax_streams = 3'
    with own.running(), ExitStack() as stack:
        followers = [
            stack.enter_context(own.follower("other", "?snapshot=false")) for _ in range(3)
        ]
        wait_until(lambda: own.metric("headwater_serve_streams") == 3, "three streams")
        answer = own.get("/changes/other")
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert answer.document["type"] == "urn:headwater:problem:too-many-streams"
        served.deployment.execute("insert into other values (400, 'all')")
        wait_until(lambda: all(one.ids for one in followers), "the change at all three")
        assert not any(one.refused for one in followers)
    served.write()


def test_a_server_that_is_told_to_stop_tells_each_client_where_to_go_on(served: Served) -> None:
    own = Served(served.deployment)
    own.settings = f'spool = "{served.deployment.home / "stop"}"'
    with own.running() as process, own.follower("other") as one:
        wait_until(lambda: one.follower.complete, "the snapshot")
        second = served.deployment.run("serve")
        assert second.returncode == 2
        assert "cannot listen there" in second.stderr
        process.terminate()
        assert process.wait(30) == 0
        assert one.names[-1] == "cut"
        assert one.follower.position == one.ids[-1]
    served.write()


@pytest.mark.parametrize(
    ("path", "query", "status", "kind"),
    [
        ("/changes/nowhere", {}, 404, "unknown-table"),
        ("/changes/pg_catalog.pg_authid", {}, 404, "unknown-table"),
        ("/changes/other", {"where": "id = 1 or true"}, 400, "wrong-filter"),
        ("/changes/other", {"where": "nothing = 1"}, 400, "wrong-filter"),
        ("/changes/other", {"key": "x"}, 400, "wrong-filter"),
        ("/changes/other", {"after": "x"}, 400, "wrong-id"),
        ("/changes/other", {"wait": "-1"}, 400, "wrong-request"),
        ("/changes/other", {"wait": "nan"}, 400, "wrong-request"),
        ("/changes/keyless", {"where": "word = 'x'"}, 400, "wrong-filter"),
        ("/views/nowhere/wait", {}, 404, "unknown-view"),
        ("/nowhere", {}, 404, "not-found"),
    ],
)
def test_bad_input_has_a_clear_answer(
    served: Served, path: str, query: dict[str, str], status: int, kind: str
) -> None:
    answer = served.ask("GET", path, query=query)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, answer.document["type"]) == (status, f"urn:headwater:problem:{kind}")
    assert answer.document["detail"]


def test_an_id_of_another_filter_is_refused(served: Served) -> None:
    _, place = polled(served, "other", "")
    answer = served.get("/changes/other", after=place, where="id = 1")
    assert (answer.status, answer.document["type"]) == (400, "urn:headwater:problem:other-filter")


def test_tables_lag_and_probes_are_told(served: Served) -> None:
    tables = {one["table"]: one for one in served.get("/tables").document["tables"]}
    assert tables["public.item"]["key"] == ["id"]
    assert tables["public.item"]["granted"]
    wait_until(lambda: served.get("/readyz").status == 200, "the first look")
    assert served.get("/lag").document["capture"]["slot"] == f"headwater_{served.deployment.name}"
    assert served.get("/views").document == {"views": []}
    assert "headwater_build_info" in served.get("/metrics").body.decode()
    paths = served.get("/openapi.json").document["paths"]
    assert "/changes/{table}" in paths
    assert served.get("/livez").headers["x-content-type-options"] == "nosniff"
