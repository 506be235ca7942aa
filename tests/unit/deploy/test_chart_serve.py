"""``headwater serve`` in the Helm chart: its pod, its users, its TLS, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import helm_python as helm
import pytest

from cdc.config import parse_config
from tests.unit.deploy.chart import MINIMAL, configuration, rendered, resources
from tests.unit.deploy.releases import RELEASES, SERVE, pods


def _part(found: dict[tuple[str, str], Any], name: str) -> Any:
    (one,) = [one for _, pod in pods(found) for one in pod["containers"] if one["name"] == name]
    return one


def test_serve_shares_the_state_and_the_processes_of_apply() -> None:
    """It reads the state database by its socket, and tells by processes whether it runs."""
    pod = resources(RELEASES["serve"])["StatefulSet", "shop-headwater-apply"]["spec"]["template"]
    apply, serve = pod["spec"]["containers"]
    assert pod["spec"]["shareProcessNamespace"] is True
    assert (serve["name"], serve["args"], serve["image"]) == ("serve", ["serve"], apply["image"])
    state = {"name": "state", "mountPath": "/var/lib/headwater"}
    assert state in apply["volumeMounts"]
    assert state in serve["volumeMounts"]
    assert "shareProcessNamespace" not in str(resources(MINIMAL))


def test_serve_has_users_tls_and_a_volume_that_outlasts_the_release(tmp_path: Path) -> None:
    found = resources(RELEASES["serve"])
    written = configuration(found)
    mounts = {one["name"]: one["mountPath"] for one in _part(found, "serve")["volumeMounts"]}
    (pod,) = [pod for _, pod in pods(found) if len(pod["containers"]) == 2]
    volumes = {one["name"]: one for one in pod["volumes"]}
    sources = [one["secret"] for one in volumes["serve-secrets"]["projected"]["sources"]]
    files = {f"{mounts['serve-secrets']}/{item['path']}" for of in sources for item in of["items"]}
    own = written["serve"]
    assert files == {own["users"], own["tls_certificate"], own["tls_key"]}
    assert [of["name"] for of in sources] == ["headwater-users", "headwater-tls"]
    assert own["spool"] == f"{mounts['serve']}/spool", "it is made private, a volume's root is not"
    claim = volumes["serve"]["persistentVolumeClaim"]["claimName"]
    kept = found["PersistentVolumeClaim", claim]["metadata"]["annotations"]
    assert kept == {"helm.sh/resource-policy": "keep"}
    config = parse_config(written, {}, tmp_path).serve
    assert (config.listen, config.is_local) == ("0.0.0.0:8484", False)
    assert {"localhost", "shop-headwater-serve", "shop-headwater-serve.prod.svc"} <= set(
        config.hosts
    )


def test_serve_is_reached_by_its_service_and_an_ingress_with_tls() -> None:
    found = resources(RELEASES["ingress"])
    name = "shop-headwater-serve"
    ports = {one["name"]: one["containerPort"] for one in _part(found, "serve")["ports"]}
    assert ports == {"serve": 8500, "serve-metrics": 9500}
    for service in (found["Service", name], found["Service", f"{name}-metrics"]):
        (port,) = service["spec"]["ports"]
        assert port["port"] == ports[port["targetPort"]]
        assert service["spec"]["publishNotReadyAddresses"] is True
        labels = found["StatefulSet", "shop-headwater-apply"]["spec"]["template"]["metadata"]
        assert service["spec"]["selector"].items() <= labels["labels"].items()
    spec = found["Ingress", name]["spec"]
    assert spec["tls"] == [{"hosts": ["headwater.example.org"], "secretName": "headwater-tls"}]
    ((rule,), written) = spec["rules"], configuration(found)
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": name, "port": {"number": 8500}}
    assert rule["host"] in written["serve"]["hosts"]
    assert written["serve"]["behind_proxy"] == ["10.0.0.0/8"]
    assert written["metrics"]["serve"] == "0.0.0.0:9500"
    assert "PersistentVolumeClaim" not in {kind for kind, _ in found}
    _, of_serve = found["NetworkPolicy", "shop-headwater"]["spec"]["ingress"]
    assert [one["port"] for one in of_serve["ports"]] == [8500]
    assert {"namespaceSelector": {"matchLabels": {"a": "b"}}} in of_serve["from"]


def test_metrics_of_serve_are_scraped_and_its_probes_ask_there() -> None:
    found = resources({**RELEASES["serve"], "serviceMonitor": {"enabled": True}})
    monitor = found["ServiceMonitor", "shop-headwater"]["spec"]
    selector = monitor["selector"]["matchLabels"].items()
    scraped = [
        port["targetPort"]
        for (kind, _), one in found.items()
        if kind == "Service" and selector <= one["metadata"]["labels"].items()
        for port in one["spec"]["ports"]
        if port["name"] == monitor["endpoints"][0]["port"]
    ]
    assert sorted(scraped) == ["metrics", "metrics", "serve-metrics"]
    serve = _part(found, "serve")
    asked = {
        name: tuple(serve[f"{name}Probe"]["httpGet"].values())
        for name in ("startup", "liveness", "readiness")
    }
    assert asked == {
        "startup": ("/livez", "serve-metrics"),
        "liveness": ("/livez", "serve-metrics"),
        "readiness": ("/readyz", "serve-metrics"),
    }
    assert serve["ports"][1]["containerPort"] == 9466
    assert configuration(found)["metrics"]["serve"] == "0.0.0.0:9466"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"users": {}}, r"set serve\.users\.existingSecret"),
        ({"tls": {}}, r"set serve\.tls\.existingSecret, or config\.serve\.behind_proxy"),
        ({"ingress": {"enabled": True, "host": "a.example"}}, r"serve\.ingress\.tlsSecret"),
    ],
)
def test_serve_does_not_start_open(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(helm.HelmError, match=said):
        rendered({**MINIMAL, "serve": {**SERVE["serve"], **changed}})


def test_serve_needs_apply() -> None:
    with pytest.raises(helm.HelmError, match=r"set apply\.enabled"):
        rendered({**MINIMAL, **SERVE, "apply": {"enabled": False}})
