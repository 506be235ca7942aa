"""Whatever ``deploy/`` and its page name exists: commands, options, variables, settings, ports,
files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from cdc.config import parse_config
from headwater.cli.app import app
from tests.unit.deploy.chart import CHART, MINIMAL, rendered, resources
from tests.unit.deploy.releases import REMOVAL, SERVE

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?ms)^ *```(\w*)\n(.*?)^ *```", PAGE)
SPANS = re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^ *```.*?^ *```", "", PAGE))
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted(DEPLOY.rglob("*"))
    if path.is_file() and path.suffix not in {".lock", ".json"}
}
BASE = 'kafka.bootstrap_servers = "k:9092"\nsource.name = "s"\nsource.tables = ["a.b"]\n'


def _invocations() -> Iterator[tuple[str, list[str]]]:
    """Every command line of headwater, with where it stands: what follows the program's name."""
    lines = [("docs/deploy.md", line) for _, block in BLOCKS for line in block.splitlines()]
    lines += [("docs/deploy.md", span) for span in SPANS]
    for name, text in TEXTS.items():
        if name.endswith((".service", "NOTES.txt")):
            lines += [(name, line) for line in text.splitlines()]
        lines += [
            (name, f"headwater {found}") for found in re.findall(r"`headwater ([^`]+)`", text)
        ]
    for place, line in lines:
        found = re.search(r"(?:^| |/bin/)headwater (?=-|[a-z])(.*)", line)
        if found and not line.startswith(("#", "useradd", "Headwater")):
            yield place, found[1].partition(" #")[0].split()
    compose = yaml.safe_load(TEXTS["deploy/docker-compose.yml"])["services"]
    for name, service in compose.items():
        if service["image"].startswith("headwater:"):
            yield f"compose: {name}", service["command"]
    for line in re.findall(r"docker compose run --rm \w+ ([a-z].*?)(?:`|$)", PAGE, re.MULTILINE):
        yield "docs/deploy.md", line.split()
    for values in (MINIMAL, {**MINIMAL, **REMOVAL}, {**MINIMAL, **SERVE}):
        for (kind, name), one in resources(values).items():
            if kind in {"Deployment", "StatefulSet", "Job"}:
                pod = one["spec"]["template"]["spec"]
                for container in pod["containers"] + pod.get("initContainers", []):
                    yield f"chart: {name}", container["args"]


def _fault(words: list[str]) -> str:
    """What of a command line the program does not know; empty if it knows all."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while rest:
        word = rest.pop(0)
        options = {name: one for one in command.params for name in (*one.opts, *one.secondary_opts)}
        if word.startswith("-"):
            if word == "--help":
                continue
            if word not in options:
                return f"{command.name} has no option {word}"
            option = options[word]
            if not option.is_flag and rest:
                rest.pop(0)
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return f"no command {word}"
            command = command.commands[word]
    return ""


def test_every_command_and_option_exists() -> None:
    found = list(_invocations())
    verbs = {word for _, words in found for word in words}
    assert {"init", "capture", "apply", "check", "lag", "verify", "uninstall", "--yes"} <= verbs
    assert [(place, words, said) for place, words in found if (said := _fault(words))] == []


@pytest.mark.parametrize("words", ["captur", "uninstall --force", "--confg x check", "view dorp"])
def test_one_that_does_not_is_found(words: str) -> None:
    assert _fault(words.split())


def test_every_setting_of_the_page_exists() -> None:
    blocks = [text for kind, text in BLOCKS if kind == "toml"]
    assert len(blocks) >= 2
    for text in blocks:
        document = tomllib.loads(BASE + 'source.dsn = "host=h"\n')
        for section, settings in tomllib.loads(text).items():
            document[section] = {**document.get(section, {}), **settings}
        environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "0123456789abcdef")
        parse_config(document, environ, Path("/"))


def test_every_setting_named_in_a_sentence_exists() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = {
        tuple(one.split(".")) for one in SPANS if re.fullmatch(r"(capture|apply|metrics)\.\w+", one)
    }
    assert ("apply", "state") in named
    for section, setting in named:
        part = page.split(f"\n## [{section}]\n")[1].split("\n## ")[0]
        assert f"| `{setting}` |" in part, f"{section}.{setting}"


def test_every_value_of_the_chart_named_on_the_page_exists() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    given = re.findall(r"--set (\S+)=", PAGE)
    sections = "|".join(set(values) - {"config", "secrets", "capture", "apply", "serve"})
    named = [one.split(":")[0] for one in SPANS if re.match(rf"({sections})\.\w", one)]
    assert given
    assert named
    for path in {*given, *named}:
        node = values
        for name in path.split("."):
            assert name in node, path
            node = node[name]
    for kind, text in BLOCKS:
        if kind == "yaml":
            rendered(yaml.safe_load(text))


def test_every_variable_exists() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for room in ("headwater", "cdc", "jobs")
        for path in (ROOT / room).rglob("*.py")
    )
    compose = TEXTS["deploy/docker-compose.yml"]
    text = PAGE + "".join(TEXTS.values())
    for name in set(re.findall(r"\b(?:HEADWATER_[A-Z_]+|JAVA_HOME|\w*SPARK_[A-Z_]+)\b", text)):
        assert f'"{name}"' in source or f"${{{name}:-" in compose, name
    used = "".join(t for name, t in TEXTS.items() if name.endswith((".toml", "example.yaml")))
    for name in set(re.findall(r"\b([A-Z][A-Z_]+)_FILE\b", compose + PAGE)):
        if not name.startswith(("POSTGRES", "HADOOP")) and name not in {
            "NAME",
            "GF_SECURITY_ADMIN_PASSWORD_",
        }:
            assert f"${{{name}}}" in used + PAGE, name


def test_every_file_and_link_exists() -> None:
    for path in set(re.findall(r"\bdeploy/[\w./*-]+\w", PAGE + "".join(TEXTS.values()))):
        assert list(ROOT.glob(path)) or path.startswith("deploy/shop-") or "{{" in path, path
    for path in set(re.findall(r"\bdocs/[\w-]+\.md", "".join(TEXTS.values()))):
        assert (ROOT / path).is_file(), path
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, part = target.partition("#")
        other = ROOT / "docs" / path if path else ROOT / "docs" / "deploy.md"
        assert other.is_file(), target
        if part:
            titles = re.findall(r"(?m)^#+ (.+)$", other.read_text(encoding="utf-8"))
            anchors = [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in titles]
            assert part in anchors, target


def test_every_resource_that_the_page_asks_for_is_in_the_chart() -> None:
    releases = MINIMAL, {**MINIMAL, **REMOVAL}, {**MINIMAL, **SERVE}
    names = {name for values in releases for _, name in resources(values)}
    named = set(re.findall(r"shop-headwater-(?:capture|apply|uninstall|serve)", PAGE))
    assert named
    assert named <= names


def test_every_port_is_one_that_something_listens_on() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    compose = yaml.safe_load(TEXTS["deploy/docker-compose.yml"])["services"]
    published = {one.rpartition(":")[2] for s in compose.values() for one in s.get("ports", [])}
    ports = ("capture", "port"), ("apply", "port"), ("serve", "port"), ("serve", "metricsPort")
    known = published | {str(values[part][name]) for part, name in ports}
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", PAGE)) <= known
    for service in compose.values():
        for port in re.findall(r"127\.0\.0\.1:(\d+)/", str(service.get("healthcheck", ""))):
            assert port in known
