"""Releases of the chart, by what is set in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.unit.deploy.chart import MINIMAL, example

EVERYTHING = {
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "image": {"repository": "r", "digest": f"sha256:{'0' * 64}", "pullSecrets": ["registry"]},
    "networkPolicy": {"metricsFrom": [{"namespaceSelector": {}}]},
    "capture": {"podAnnotations": {"a": "b"}, "nodeSelector": {"a": "b"}},
    "apply": {
        "persistence": {"existingClaim": "state"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
}
SERVE: dict[str, Any] = {
    "serve": {
        "enabled": True,
        "users": {"existingSecret": "headwater-users"},
        "tls": {"existingSecret": "headwater-tls"},
    },
}
BEHIND_INGRESS: dict[str, Any] = {
    "serve": {
        "enabled": True,
        "port": 8500,
        "metricsPort": 9500,
        "users": {"existingSecret": "headwater-users", "key": "users"},
        "service": {"type": "NodePort", "annotations": {"a": "b"}},
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"a": "b"},
            "host": "headwater.example.org",
            "tlsSecret": "headwater-tls",
        },
        "persistence": {"existingClaim": "spool"},
    },
    "networkPolicy": {"serveFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]},
}
REMOVAL = {
    "capture": {"enabled": False},
    "apply": {"enabled": False},
    "uninstall": {"enabled": True},
}
RELEASES = {
    "minimal": MINIMAL,
    "example": example(),
    "everything": {**example(), **EVERYTHING},
    "removal": {**example(), **REMOVAL},
    "serve": {**MINIMAL, **SERVE},
    "ingress": {
        "config": {**example()["config"], "serve": {"behind_proxy": ["10.0.0.0/8"]}},
        **BEHIND_INGRESS,
    },
}


def pods(found: dict[tuple[str, str], Any]) -> Iterator[tuple[str, Any]]:
    """Of each workload, with its kind."""
    for (kind, _), one in found.items():
        if kind in {"Deployment", "StatefulSet", "Job"}:
            yield kind, one["spec"]["template"]["spec"]
