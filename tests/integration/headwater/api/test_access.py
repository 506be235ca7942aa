"""Who may ask, tried as an attacker would: over HTTP, against a server that wants a login."""

from __future__ import annotations

import json
import random
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress

import pytest

from stack.ports import free_port
from tests.support.commands.deployment import Deployment
from tests.support.serve.served import Served
from tests.support.servers.postgres import fresh_database
from tests.support.waiting import wait_until

PASSWORD = "correct horse battery"
HIDDEN = "secret-value"


@pytest.fixture(scope="module")
def guarded(
    postgres: str, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    with fresh_database(postgres) as source:
        home = tmp_path_factory.mktemp("guarded")
        deployment = Deployment(home, f"t{random.randbytes(5).hex()}", source, kafka)
        deployment.settings = (
            '[source.columns]\n"public.person" = { email = "mask", iban = "exclude" }\n'
        )
        deployment.execute(
            "create table person (id int primary key, email text, iban text)",
            f"insert into person values (1, '{HIDDEN}', '{HIDDEN}')",
            "create table item (id int primary key, name text)",
            "insert into item values (1, 'one')",
        )
        deployment.init()
        served = Served(deployment)
        metrics = free_port({served.port})
        served.settings = (
            'users = "users.toml"\nsession = "1h"\nmax_streams = 40\n'
            f'[metrics]\nserve = "127.0.0.1:{metrics}"'
        )
        served.write()
        made = Guarded(served, metrics)
        made.add_user("alice", "--role", "operator", "--table", "*")
        made.add_user("bob", "--table", "public.item")
        made.token = made.add_token("cache", "--table", "public.item")
        with deployment.running("capture") as capture:
            deployment.captured(capture)
            with served.running():
                yield made


class Guarded:
    def __init__(self, served: Served, metrics: int) -> None:
        self.served, self.metrics = served, metrics
        self.token = ""

    def add_user(self, name: str, *options: str, password: str = PASSWORD) -> None:
        from headwater.api.access.passwords import hashed_password
        from headwater.api.access.principal import Role
        from headwater.api.access.users import write_account

        role = Role(options[options.index("--role") + 1] if "--role" in options else "viewer")
        tables = tuple(options[i + 1] for i, one in enumerate(options) if one == "--table")
        path = self.served.deployment.home / "users.toml"
        write_account(path, "users", name, hashed_password(password), role, tables)

    def add_token(self, name: str, *options: str) -> str:
        done = self.served.deployment.run("serve", "add-token", name, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def log_in(self, user: str, password: str = PASSWORD, **headers: str) -> tuple[int, str]:
        """Status and cookie."""
        body = json.dumps({"user": user, "password": password}).encode()
        answer = self.served.ask(
            "POST", "/login", {"Content-Type": "application/json", **headers}, body
        )
        return answer.status, answer.headers.get("set-cookie", "")

    def cookie(self, user: str) -> dict[str, str]:
        status, cookie = self.log_in(user)
        assert status == 204
        return {"Cookie": cookie.partition(";")[0]}


ACTIONS: tuple[tuple[str, dict[str, object]], ...] = (
    ("/views/v/rebuild", {}),
    ("/views/v/rollback", {}),
    ("/views/v/replay", {"place": "beginning"}),
    ("/views/v/verify", {}),
    ("/snapshots", {"tables": ["public.item"]}),
    ("/snapshots/1/pause", {}),
    ("/snapshots/1/resume", {}),
    ("/snapshots/1/cancel", {}),
    ("/dead-letters/v/retry", {}),
    ("/dead-letters/v/discard", {"all": True, "reason": "x"}),
)
OPEN = ("/livez", "/readyz")
CLOSED = ("/tables", "/changes/item", "/changes/nowhere", "/views", "/views/v/wait", "/lag",
          "/metrics", "/openapi.json", "/me", "/pipeline", "/source", "/topics", "/views/v",
          "/snapshots", "/dead-letters", "/alarms", "/alarms/HW001",
          "/history", "/views/v/freshness", "/jobs", "/jobs/1", "/audit")  # fmt: skip


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer hw_" + "A" * 43},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic YWxpY2U6Y29ycmVjdA=="},
        {"Cookie": "headwater_session=" + "A" * 43},
        {"Cookie": "headwater_session="},
    ],
)
def test_nobody_gets_anything_without_a_login(
    guarded: Guarded, path: str, headers: dict[str, str]
) -> None:
    answer = guarded.served.get(path, headers)
    assert answer.status == 401
    assert answer.document["type"].startswith("urn:headwater:problem:")
    assert guarded.served.get("/trace/item", headers, key="1").status == 401


def test_probes_are_open_and_tell_nothing(guarded: Guarded) -> None:
    assert guarded.served.get("/livez").status == 200
    assert "missing" not in guarded.served.get("/readyz").document


def test_metrics_have_a_port_without_a_login_that_shows_nothing_else(guarded: Guarded) -> None:
    at = Served(guarded.served.deployment, guarded.metrics)
    assert b"headwater_serve_streams" in at.get("/metrics").body
    assert [at.get(path).status for path in ("/livez", "/lag", "/changes/item")] == [200, 404, 404]


def test_row_values_are_granted_by_table_whatever_the_name_is_written_like(
    guarded: Guarded,
) -> None:
    served = guarded.served
    assert served.get("/changes/item", guarded.bearer, wait="1").status == 200
    for table in ("person", "public.person", "PUBLIC.PERSON", "public.person%00", "nowhere",
                  "public.item/../public.person", "public.*", "*"):  # fmt: skip
        answer = served.get(f"/changes/{table}", guarded.bearer, wait="1")
        assert answer.status in (403, 404), table
        assert HIDDEN not in answer.body.decode()
        traced = served.get(f"/trace/{table}", guarded.bearer, key="1")
        assert traced.status in (403, 404), table
    tables = {one["table"]: one for one in served.get("/tables", guarded.bearer).document["tables"]}
    assert not tables["public.person"]["granted"]


def test_an_id_of_another_table_shows_nothing_of_it(guarded: Guarded) -> None:
    served, alice = guarded.served, guarded.cookie("alice")
    first = served.get("/changes/person", alice, wait="5").document
    stolen = served.get("/changes/item", guarded.bearer, wait="5", after=first["next"])
    assert b"email" not in stolen.body


def test_treated_columns_stay_treated(guarded: Guarded) -> None:
    alice, place, seen = guarded.cookie("alice"), "", b""
    while not place.startswith("l1"):
        answer = guarded.served.get("/changes/person", alice, wait="5", after=place)
        place, seen = answer.document["next"], seen + answer.body
    guarded.served.deployment.execute(f"update person set email = 'x{HIDDEN}' where id = 1")
    answer = guarded.served.get("/changes/person", alice, wait="30", after=place)
    assert answer.document["events"][0]["data"]["after"]["email"] == "***"
    assert HIDDEN.encode() not in seen + answer.body
    assert b"iban" not in seen + answer.body
    wrong = guarded.served.get("/changes/person", alice, wait="5", where="email = 'x'")
    assert wrong.status == 400


def test_a_session_is_strict_and_ends(guarded: Guarded) -> None:
    status, cookie = guarded.log_in("alice")
    assert status == 204
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    mine = {"Cookie": cookie.partition(";")[0]}
    me = guarded.served.get("/me", mine).document
    assert me == {"name": "alice", "role": "operator", "tables": ["*"]}
    origin = {"Origin": guarded.served.base}
    assert guarded.served.ask("POST", "/logout", {**mine, **origin}).status == 204
    assert guarded.served.get("/me", mine).document["type"].endswith("session-ended")


def test_a_user_whose_password_changes_or_who_is_removed_is_out_at_once(guarded: Guarded) -> None:
    guarded.add_user("carol", "--table", "*")
    mine = guarded.cookie("carol")
    assert guarded.served.get("/me", mine).status == 200
    guarded.add_user("carol", "--table", "*", password="another long password")
    assert guarded.served.get("/me", mine).status == 401


def test_a_stream_ends_when_its_login_does(guarded: Guarded) -> None:
    token = guarded.add_token("short", "--table", "public.item")
    with guarded.served.follower("item", token=token) as one:
        wait_until(lambda: one.follower.complete, "the snapshot")
        guarded.add_token("short", "--table", "public.item")
        wait_until(lambda: "cut" in one.names, "the stream to end")
        wait_until(lambda: one.refused, "the token to be refused")
    assert "401" in one.refused[-1]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {},
    ],
)
def test_another_site_changes_nothing(guarded: Guarded, headers: dict[str, str]) -> None:
    mine = guarded.cookie("bob")
    assert guarded.served.ask("POST", "/logout", {**mine, **headers}).status == 403
    assert guarded.served.get("/me", mine).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", ""])
def test_a_name_that_was_bound_to_this_address_is_refused(guarded: Guarded, host: str) -> None:
    answer = guarded.served.get("/livez", {"Host": host})
    assert answer.status == 421


def test_a_page_may_not_read_or_frame_anything(guarded: Guarded) -> None:
    for path, headers in (("/livez", {}), ("/me", {}), ("/me", guarded.bearer), ("/x", {})):
        found = guarded.served.get(path, headers).headers
        assert "frame-ancestors 'none'" in found["content-security-policy"]
        assert found["x-content-type-options"] == "nosniff"
        assert found["x-frame-options"] == "DENY"
        assert found["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in found
        assert "server" not in found


def posted(
    guarded: Guarded, path: str, headers: dict[str, str], body: dict[str, object]
) -> tuple[int, str]:
    """Status, and the kind of problem."""
    sent = {"Content-Type": "application/json", **headers}
    answer = guarded.served.ask("POST", path, sent, json.dumps(body).encode())
    return answer.status, str(answer.document.get("type", "")).rpartition(":")[2]


@pytest.mark.parametrize(("path", "body"), ACTIONS)
def test_who_may_only_look_has_nothing_done(
    guarded: Guarded, path: str, body: dict[str, object]
) -> None:
    assert posted(guarded, path, {}, body)[0] == 401
    origin = {"Origin": guarded.served.base}
    for headers in (guarded.bearer, {**guarded.cookie("bob"), **origin}):
        status, kind = posted(guarded, path, headers, body)
        assert (status, kind) == (403, "not-operator") or "/v/" in path
        assert status in (403, 404)
    alice = guarded.cookie("alice")
    for forged in ({}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert posted(guarded, path, {**alice, **forged}, body)[0] == 403
    assert guarded.served.get("/audit", guarded.bearer).status == 403
    assert guarded.served.get("/jobs", alice).document == {"jobs": []}


def test_an_operator_without_a_grant_asks_nothing_about_single_rows(guarded: Guarded) -> None:
    token = guarded.add_token("hand", "--role", "operator", "--table", "public.item")
    headers = {"Authorization": f"Bearer {token}"}
    for tables in (["public.person"], ["public.item", "public.person"], ["public.*"]):
        body: dict[str, object] = {"tables": tables, "where": f"email = '{HIDDEN}'"}
        assert posted(guarded, "/snapshots", headers, body) == (403, "not-granted")
    lines = guarded.served.get("/audit", headers).document["lines"]
    assert {one["outcome"] for one in lines} <= {"refused"}
    assert HIDDEN not in json.dumps(lines)


@pytest.mark.parametrize(
    ("table", "bound", "kind"),
    [
        ("public.item", {"where": "id = (select 1)"}, "wrong-filter"),
        ("public.item", {"where": "pg_sleep(1) is null"}, "wrong-filter"),
        ("public.item", {"where": "true) or (true"}, "wrong-filter"),
        ("public.person", {"where": f"email = '{HIDDEN}'"}, "treated-column"),
        ("public.person", {"where": f"EMAIL like '{HIDDEN}%'"}, "treated-column"),
        ("public.person", {"key_range": "1:2"}, "treated-column"),
        ("PERSON", {"key_range": "1:2"}, "treated-column"),
        ("public.pers*", {"key_range": "1:2"}, "treated-column"),
    ],
)
def test_a_condition_over_http_does_no_more_than_compare_what_may_be_seen(
    guarded: Guarded, table: str, bound: dict[str, str], kind: str
) -> None:
    headers = {**guarded.cookie("alice"), "Origin": guarded.served.base}
    body: dict[str, object] = {"tables": [table], **bound}
    assert posted(guarded, "/snapshots", headers, body)[1] == kind
    taken = guarded.served.get("/snapshots", guarded.cookie("alice")).document["snapshots"]
    assert [one["kind"] for one in taken] == ["initial"]


def test_guessing_is_slowed_down_and_does_not_lock_others_out(guarded: Guarded) -> None:
    for _ in range(4):
        assert guarded.log_in("alice", "wrong password")[0] == 401
    assert guarded.log_in("alice")[0] == 204, "a few failures cost nothing"
    seen = [guarded.log_in("mallory", f"guess {i}")[0] for i in range(12)]
    assert seen[0] == 401
    assert 429 in seen
    assert seen[-1] == 429


def test_requests_without_an_end_are_ended(guarded: Guarded) -> None:
    served = guarded.served
    answer = served.ask("POST", "/login", {"Content-Type": "application/json"}, b"x" * 70_000)
    assert answer.status == 413
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as conn:
        conn.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(ConnectionError):
            for _ in range(8_000):  # 64 MB
                conn.sendall(b"X-Header: " + b"a" * 8_000 + b"\r\n")
            pytest.fail("it took headers without an end")
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as conn:
        assert conn.recv(1) == b"", "a connection that says nothing is closed"
    assert served.get("/livez").status == 200


def test_more_connections_than_there_may_be_are_told_so(guarded: Guarded) -> None:
    """40 streams and 256 others: the server stays up, and answers once they are gone."""
    held: list[socket.socket] = []
    try:
        answers = set()
        for _ in range(600):
            conn = socket.create_connection(("127.0.0.1", guarded.served.port), timeout=30)
            conn.setblocking(False)
            held.append(conn)

        def told() -> bool:
            for conn in held:
                try:
                    answers.add(conn.recv(12))
                except OSError:
                    continue
            return b"HTTP/1.1 503" in answers

        wait_until(told, "503 on some of them")
    finally:
        for conn in held:
            conn.close()
    wait_until(lambda: guarded.served.get("/livez").status == 200, "the server to answer")


def test_only_the_owner_reads_what_is_kept(guarded: Guarded) -> None:
    home = guarded.served.deployment.home
    guarded.served.get("/changes/item", guarded.bearer, wait="1")
    assert stat.S_IMODE((home / "users.toml").stat().st_mode) == 0o600
    spool = home / ".headwater/serve"
    assert stat.S_IMODE(spool.stat().st_mode) == 0o700
    rows = list(spool.glob("*.rows"))
    assert rows
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in rows)
    log = guarded.served.log()
    assert PASSWORD not in log
    assert guarded.token not in log
    assert guarded.token not in (home / "users.toml").read_text()


def test_a_command_adds_a_user_whose_password_comes_from_a_pipe(guarded: Guarded) -> None:
    done = guarded.served.deployment.run("serve", "add-user", "x y")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
