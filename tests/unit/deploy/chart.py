"""The chart, rendered by Helm's own engine."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import helm_python as helm
import yaml

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "headwater"
MINIMAL: dict[str, Any] = {
    "config": {
        "source": {"name": "shop", "dsn": "host=db", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "kafka:9092"},
    }
}


def example() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CHART / "example.yaml").read_text(encoding="utf-8"))
    return values


def rendered(values: dict[str, Any], release: str = "shop") -> dict[str, str]:
    """The text of each template by its file's name. Raises ``HelmError``."""
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        texts: dict[str, str] = chart.render(values, name=release, namespace="prod")
    return {name.rpartition("/")[2]: text for name, text in texts.items()}


def resources(values: dict[str, Any], release: str = "shop") -> dict[tuple[str, str], Any]:
    """What a release has, by kind and name."""
    found = {}
    for name, text in rendered(values, release).items():
        if name.endswith(".yaml"):
            for one in yaml.safe_load_all(text):
                if one is not None:
                    key = one["kind"], one["metadata"]["name"]
                    assert key not in found
                    found[key] = one
    return found


def configuration(found: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """``headwater.toml`` of a release."""
    (one,) = [one for (kind, _), one in found.items() if kind == "ConfigMap"]
    return tomllib.loads(one["data"]["headwater.toml"])
