"""docker-compose.yml describes the same servers as ``headwater up``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc.errors import StackError
from stack import docker, jars_lock
from stack.docker import COMPOSE_FILE, PORTS
from stack.servers import SERVERS


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
    services: dict[str, Any] = document["services"]
    return services


def test_it_has_the_four_servers_and_each_says_when_it_is_healthy(
    services: dict[str, Any],
) -> None:
    assert set(services) == set(SERVERS)
    assert all("healthcheck" in service for service in services.values())


def test_the_versions_are_those_of_the_jars(services: dict[str, Any]) -> None:
    images = {name: service["image"] for name, service in services.items()}
    assert images["postgres"].startswith("postgres:18.")
    assert images["kafka"] == f"apache/kafka:{jars_lock.KAFKA}"
    assert images["opensearch"] == f"opensearchproject/opensearch:{jars_lock.OPENSEARCH}"
    assert images["redis"].startswith("redis:7.")


def test_every_port_is_on_loopback_and_can_be_moved(services: dict[str, Any]) -> None:
    for name, (variable, default) in PORTS.items():
        [port] = services[name]["ports"]
        assert port.startswith(f"127.0.0.1:${{{variable}:-{default}}}:")


def test_postgres_writes_a_logical_log(services: dict[str, Any]) -> None:
    assert "-cwal_level=logical" in services["postgres"]["command"]


def test_kafka_announces_the_port_of_the_host(services: dict[str, Any]) -> None:
    announced = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert "PLAINTEXT://127.0.0.1:${HEADWATER_KAFKA_PORT:-9092}" in announced


def test_without_a_docker_command_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match=r"docker was not found\. Run without --docker"):
        docker.up()


def test_an_engine_that_does_not_answer_is_an_error_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    with pytest.raises(StackError, match=r"no Docker engine answers \(Cannot connect to"):
        docker.up()
