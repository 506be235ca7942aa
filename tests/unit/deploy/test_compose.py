"""``deploy/docker-compose.yml``: valid, whole, and of the servers that the tests run on."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cdc.config import load_config
from headwater.api.app import _JOBS_S
from headwater.api.server import _STOP_S as _STREAMS_S
from headwater.cli.capture.command import _STOP_S
from jobs.spark.session import _SETTINGS

DEPLOY = Path(__file__).parents[3] / "deploy"
FILE = DEPLOY / "docker-compose.yml"
OURS = {"init", "capture", "apply", "serve"}
_EXACT = r":v?\d+\.\d+\.\d+$|postgres:\d+\.\d+$|@sha256:[0-9a-f]{64}$"
"""PostgreSQL's versions have two numbers."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def _faults(document: dict[str, Any]) -> list[str]:
    """By the schema of the Compose specification."""
    text = (
        files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text()
    )
    checker = jsonschema.Draft202012Validator(json.loads(text))
    return [f"{one.json_path}: {one.message}" for one in checker.iter_errors(document)]


@pytest.mark.parametrize("image", ["redis", "redis:7", "redis:latest", "postgres:18", "x:7.4"])
def test_a_tag_that_moves_is_no_exact_version(image: str) -> None:
    assert not re.search(_EXACT, image)
    assert re.search(_EXACT, f"redis:7@sha256:{'0' * 64}")


def test_it_is_as_the_specification_says(document: dict[str, Any]) -> None:
    assert _faults(document) == []
    assert _faults({**document, "services": {"x": {"image": "x", "portz": []}}})


def test_it_has_the_whole_pipeline(document: dict[str, Any]) -> None:
    servers = {"postgres", "kafka", "opensearch", "redis", "prometheus", "grafana"}
    assert set(document["services"]) == servers | OURS


def test_every_service_is_probed_limited_and_started_again(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        assert service["mem_limit"], name
        assert service["restart"] in {"unless-stopped", "on-failure:5"}, name
        assert name == "init" or service["healthcheck"]["test"], name
        assert re.search(_EXACT, service["image"]), f"{name} is of no exact version"


def test_what_is_named_is_declared(document: dict[str, Any]) -> None:
    services = document["services"]
    for name, service in services.items():
        assert set(service.get("secrets", [])) <= set(document["secrets"]), name
        for other, wanted in service.get("depends_on", {}).items():
            healthy = "healthcheck" in services[other]
            expected = "service_healthy" if healthy else "service_completed_successfully"
            assert wanted == {"condition": expected}, (name, other)
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), mount
            else:
                assert source in document["volumes"], mount


def test_passwords_are_in_files_only(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        for variable, value in service.get("environment", {}).items():
            if "PASSWORD" in variable:
                assert variable.endswith("_FILE"), (name, variable)
                assert value.removeprefix("/run/secrets/") in service["secrets"]
    assert all(set(one) == {"file"} for one in document["secrets"].values())


def test_ours_may_write_nothing_but_state_and_temporary_files(document: dict[str, Any]) -> None:
    for name in OURS:
        service = document["services"][name]
        assert service["read_only"] is True
        assert service["user"] == "10001:10001"
        assert service["cap_drop"] == ["ALL"]
        (temporary,) = service["tmpfs"]
        assert temporary.startswith("/tmp:exec,"), "the JVM loads native libraries from there"
        writable = [one for one in service["volumes"] if not one.endswith(":ro")]
        state, spool = "state:/var/lib/headwater", "serve:/var/lib/headwater-serve"
        assert writable == {"apply": [state], "serve": [state, spool]}.get(name, [])


def test_they_have_time_to_stop(document: dict[str, Any]) -> None:
    seconds = {
        name: int(document["services"][name]["stop_grace_period"].removesuffix("s"))
        for name in ("capture", "apply", "serve")
    }
    assert seconds["capture"] > _STOP_S
    assert seconds["apply"] > int(_SETTINGS["spark.sql.streaming.stopTimeout"].removesuffix("s"))
    assert seconds["serve"] > _JOBS_S + _STREAMS_S


def test_the_servers_are_those_that_the_tests_run_on(document: dict[str, Any]) -> None:
    tried = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text(encoding="utf-8"))
    for name, service in tried["services"].items():
        assert document["services"][name]["image"] == service["image"]
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))
    image = f"headwater:{version['project']['version']}"
    assert {document["services"][name]["image"] for name in OURS} == {image}


def test_what_is_reached_from_the_host_is_on_loopback(document: dict[str, Any]) -> None:
    for service in document["services"].values():
        assert all(one.startswith("127.0.0.1:${HEADWATER_") for one in service.get("ports", []))


def test_the_configuration_is_good_and_asks_servers_of_the_file(
    document: dict[str, Any], tmp_path: Path
) -> None:
    environ = {}
    for variable in document["services"]["apply"]["environment"]:
        (tmp_path / variable).write_text("s3cr3t\n", encoding="utf-8")
        environ[variable] = str(tmp_path / variable)
    config = load_config(DEPLOY / "compose" / "headwater.toml", environ)
    assert "password=s3cr3t" in config.source.dsn
    assert config.apply.state == "/var/lib/headwater"
    text = (DEPLOY / "compose" / "headwater.toml").read_text(encoding="utf-8")
    hosts = set(re.findall(r"(?:host=|://(?::[^@]+@)?|servers = \")(\w+)", text))
    assert hosts == {"postgres", "opensearch", "redis", "kafka", "localhost", "serve"}


def test_the_console_asks_for_a_login_by_tls_and_keeps_what_it_has_to(
    document: dict[str, Any],
) -> None:
    service = document["services"]["serve"]
    serve = load_config(
        DEPLOY / "compose" / "headwater.toml", {"SOURCE_PASSWORD": "a", "REDIS_PASSWORD": "b"}
    ).serve
    secrets = {f"/run/secrets/{name}" for name in service["secrets"]}
    assert {serve.users, serve.tls_certificate, serve.tls_key} <= secrets
    mounts = dict(one.split(":")[:2] for one in service["volumes"])
    assert mounts["serve"] == serve.spool
    assert (
        mounts["state"]
        == dict(one.split(":")[:2] for one in document["services"]["apply"]["volumes"])["state"]
    )
    assert "pid" not in service, "it ends with the container whose processes it shares"
    (port,) = service["ports"]
    assert port.endswith(f":{serve.port}")
    assert {"localhost", "127.0.0.1", "serve"} == set(serve.hosts)
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert f" {serve.spool}\n" in dockerfile, "a new volume is its owner's, by that of the image"


def test_prometheus_and_the_probes_ask_where_the_processes_listen(
    document: dict[str, Any],
) -> None:
    config = tomllib.loads((DEPLOY / "compose" / "headwater.toml").read_text(encoding="utf-8"))
    scraped = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = scraped["scrape_configs"]
    targets = dict(one.split(":") for one in job["static_configs"][0]["targets"])
    assert set(targets) == {"capture", "apply", "serve"}
    for name, port in targets.items():
        assert config["metrics"][name] == f"0.0.0.0:{port}"
        probe = document["services"][name]["healthcheck"]["test"][-1]
        assert f"http://127.0.0.1:{port}/readyz" in probe
        compile(probe, name, "exec")


def test_the_first_tables_are_those_of_the_views() -> None:
    script = DEPLOY / "compose" / "source.sh"
    assert script.stat().st_mode & stat.S_IXOTH
    text = script.read_text(encoding="utf-8")
    config = load_config(
        DEPLOY / "compose" / "headwater.toml",
        {"SOURCE_PASSWORD": "a", "REDIS_PASSWORD": "b", **os.environ},
    )
    created = set(re.findall(r"CREATE TABLE (\w+)", text))
    read = {
        table
        for view in config.views.values()
        for table in re.findall(r"(?:from|join) (\w+)", view.sql)
    }
    assert read == created
