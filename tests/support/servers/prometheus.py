"""Prometheus and its tools: those on ``PATH``, or those that ``stack/test_tools.sh`` unpacked."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from jobs.spark.jars import cache_directory
from stack.ports import free_port
from tests.support.commands.scraping import get
from tests.support.waiting import wait_until


def tool(name: str) -> str:
    """Where ``prometheus``, ``promtool`` or ``amtool`` is."""
    unpacked = cache_directory() / "prometheus" / name
    found = str(unpacked) if unpacked.is_file() else shutil.which(name)
    assert found, f"{name} is missing: run make check, or apt-get install prometheus"
    return found


def run(name: str, *arguments: str | Path, text: str | None = None) -> tuple[int, str]:
    """Its exit code, and all that it said."""
    ended = subprocess.run(
        [tool(name), *map(str, arguments)], input=text, capture_output=True, text=True, timeout=300
    )
    return ended.returncode, ended.stdout + ended.stderr


class Alert(NamedTuple):
    """``state`` is pending or firing; ``since_s`` when Prometheus first saw its condition."""

    state: str
    since_s: float
    labels: Mapping[str, str]


class Prometheus:
    """A server on loopback that scrapes and evaluates each second."""

    def __init__(self, home: Path, rules: str, ports: Iterable[int]) -> None:
        home.mkdir()
        (home / "alarms.rules.yml").write_text(rules, encoding="utf-8")
        targets = [f"127.0.0.1:{port}" for port in ports]
        config = {
            "global": {
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "evaluation_interval": "1s",
            },
            "rule_files": ["alarms.rules.yml"],
            "scrape_configs": [{"job_name": "headwater", "static_configs": [{"targets": targets}]}],
        }
        (home / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        self.port = free_port(set())
        with (home / "prometheus.log").open("w", encoding="utf-8") as stream:
            self._process = subprocess.Popen(
                [
                    tool("prometheus"),
                    f"--config.file={home / 'prometheus.yml'}",
                    f"--storage.tsdb.path={home / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    "--log.level=warn",
                ],
                stdout=stream,
                stderr=stream,
            )
        wait_until(self._answers, "Prometheus to answer")

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)

    def alerts(self) -> dict[str, list[Alert]]:
        """What is pending or firing, by its code."""
        status, text = get(self.port, "/api/v1/alerts")
        assert status == 200, text
        found: dict[str, list[Alert]] = {}
        for one in json.loads(text)["data"]["alerts"]:
            since_s = datetime.fromisoformat(one["activeAt"][:19] + "+00:00").timestamp()
            since_s += float("0" + (re.search(r"\.\d+", one["activeAt"]) or ["0"])[0])
            alert = Alert(one["state"], since_s, one["labels"])
            found.setdefault(one["labels"]["code"], []).append(alert)
        return found

    def fired(self, minutes: int) -> set[str]:
        """Codes of the alarms that fired at some time of the last ``minutes``."""
        query = f'count by (code) (count_over_time(ALERTS{{alertstate="firing"}}[{minutes + 1}m]))'
        status, text = get(self.port, f"/api/v1/query?query={quote(query)}")
        assert status == 200, text
        return {one["metric"]["code"] for one in json.loads(text)["data"]["result"]}

    def _answers(self) -> bool:
        assert self._process.poll() is None, "Prometheus has ended"
        try:
            return get(self.port, "/-/ready")[0] == 200
        except OSError:
            return False
