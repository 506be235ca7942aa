"""What `headwater check` says of [serve]: everything that would keep the server from starting."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme

from cdc.config import Config, parse_config
from headwater.api.access.passwords import hashed_token
from headwater.api.access.principal import Role
from headwater.api.access.users import write_account
from headwater.cli.serve.settings import serve


def config(folder: Path, settings: dict[str, Any] | None, **more: Any) -> Config:
    document = {
        "source": {"name": "shop", "dsn": "postgresql://nowhere", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "localhost:1"},
        **more,
    }
    if settings is not None:
        document["serve"] = {"spool": str(folder / "spool"), **settings}
    return parse_config(document, {}, folder)


def found(folder: Path, settings: dict[str, Any] | None, **more: Any) -> list[tuple[str, str]]:
    return [(one.level, one.message) for one in serve(config(folder, settings, **more))]


def certificate(folder: Path, days: int) -> dict[str, str]:
    until = datetime.now(UTC) + timedelta(days=days, hours=1)
    made = trustme.CA().issue_cert("localhost", not_after=until)
    made.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    made.private_key_pem.write_to_path(folder / "key.pem")
    return {"tls_certificate": str(folder / "cert.pem"), "tls_key": str(folder / "key.pem")}


def test_without_a_section_nothing_is_said(tmp_path: Path) -> None:
    assert found(tmp_path, None) == []


def test_what_can_start_is_fine(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    write_account(users, "tokens", "cache", hashed_token("hw_x"), Role.VIEWER, ())
    settings = {"users": str(users), "audit": str(tmp_path / "audit.jsonl")}
    ((level, said),) = found(tmp_path, {**settings, **certificate(tmp_path, 90)})
    assert (level, "127.0.0.1:8484" in said) == ("ok", True)


def test_users_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    assert found(tmp_path, {"users": str(users)})[0][0] == "error"
    users.write_text("[users.x]\nrole = 'odd'\n[tokens.y]\n")
    users.chmod(0o600)
    said = found(tmp_path, {"users": str(users)})
    assert [level for level, _ in said] == ["error", "error"]
    users.chmod(0o644)
    assert "can read it" in found(tmp_path, {"users": str(users)})[0][1]


def test_a_certificate_is_looked_at_before_clients_do(tmp_path: Path) -> None:
    soon = certificate(tmp_path, 3)
    assert found(tmp_path, soon)[0] == ("warning", "serve.tls_certificate expires in 3 days")
    later = [one.level for one in serve(config(tmp_path, soon), time.time() + 4 * 86_400)]
    assert later == ["error"]
    (tmp_path / "key.pem").write_text("no key")
    assert found(tmp_path, soon)[0][0] == "error"
    other = certificate(tmp_path, 90)
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(tmp_path / "key.pem")
    assert found(tmp_path, other)[0][0] == "error"


def test_events_that_it_does_not_read_are_an_error(tmp_path: Path) -> None:
    said = found(tmp_path, {"max_waits": 8}, events={"preset": "debezium"})
    assert said[0][0] == "error"


def test_a_place_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = found(tmp_path, {"spool": str(tmp_path / "file" / "below"), "max_waits": 8})
    assert said[0][0] == "error"
    assert "serve.spool" in said[0][1]
    assert "serve.audit" in found(tmp_path, {"audit": str(tmp_path / "file" / "a")})[0][1]
