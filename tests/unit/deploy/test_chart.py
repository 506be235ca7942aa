"""The Helm chart: what it renders, and what it refuses."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest
import trustme
import yaml

from cdc.config import Config, parse_config
from headwater.cli.capture.command import _STOP_S
from jobs.spark.session import _SETTINGS
from tests.unit.deploy.chart import CHART, MINIMAL, configuration, example, rendered, resources
from tests.unit.deploy.releases import EVERYTHING, RELEASES, REMOVAL, SERVE, pods

OPERATOR = {"ServiceMonitor", "PrometheusRule"}
"""Kinds that the Prometheus operator defines, not Kubernetes."""


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_what_it_renders_is_valid(release: str, version: str) -> None:
    found = resources(RELEASES[release])
    assert {"ConfigMap", "ServiceAccount", "NetworkPolicy"} <= {kind for kind, _ in found}
    for (kind, _), one in found.items():
        if kind not in OPERATOR:
            kubernetes_validate.validate(one, version, strict=True)


def test_helm_has_nothing_to_remark_but_the_icon() -> None:
    report = helm.lint(CHART, example(), strict=True, kube_version="v1.30.0")
    assert [one["error"] for one in report["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize("release", RELEASES)
def test_no_container_may_more_than_it_has_to(release: str) -> None:
    for _, pod in pods(resources(RELEASES[release])):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"] + pod.get("initContainers", []):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_one_pod_each_that_ends_before_the_next_and_has_time_to() -> None:
    found = resources(MINIMAL)
    capture = found["Deployment", "shop-headwater-capture"]["spec"]
    apply = found["StatefulSet", "shop-headwater-apply"]["spec"]
    assert (capture["replicas"], capture["strategy"]) == (1, {"type": "Recreate"})
    assert apply["replicas"] == 1
    spark_s = int(_SETTINGS["spark.sql.streaming.stopTimeout"].removesuffix("s"))
    grace = "terminationGracePeriodSeconds"
    assert capture["template"]["spec"][grace] > _STOP_S
    assert apply["template"]["spec"][grace] > spark_s
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    assert schema["capture"]["properties"][grace]["minimum"] > _STOP_S
    assert schema["apply"]["properties"][grace]["minimum"] > spark_s


def test_a_drained_node_takes_one_pod_and_each_is_scraped() -> None:
    found = resources({**MINIMAL, **EVERYTHING})
    for kind, part in (("Deployment", "capture"), ("StatefulSet", "apply")):
        name = f"shop-headwater-{part}"
        labels = found[kind, name]["spec"]["template"]["metadata"]["labels"]
        budget = found["PodDisruptionBudget", name]["spec"]
        assert budget["maxUnavailable"] == 1
        assert budget["selector"]["matchLabels"].items() <= labels.items()
    monitor = found["ServiceMonitor", "shop-headwater"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    selector = monitor["spec"]["selector"]["matchLabels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    services = [one for (kind, _), one in found.items() if kind == "Service"]
    scraped = [one for one in services if selector <= one["metadata"]["labels"].items()]
    ports = [port for one in scraped for port in one["spec"]["ports"]]
    assert [port["name"] for port in ports if port["name"] == endpoint["port"]] == ["metrics"] * 2
    pods = [one["spec"]["selector"]["app.kubernetes.io/component"] for one in scraped]
    assert sorted(pods) == ["apply", "capture"]


def test_liveness_and_readiness_ask_different_questions_at_the_port_that_is_served() -> None:
    values = {**MINIMAL, "capture": {"port": 9001}, "apply": {"port": 9002}}
    found = resources(values)
    metrics = configuration(found)["metrics"]
    assert metrics == {"capture": "0.0.0.0:9001", "apply": "0.0.0.0:9002"}
    for _, pod in pods(found):
        (one,) = pod["containers"]
        assert one["ports"] == [{"name": "metrics", "containerPort": values[one["name"]]["port"]}]
        paths = {
            p: one[f"{p}Probe"]["httpGet"]["path"] for p in ("startup", "liveness", "readiness")
        }
        assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    policy = found["NetworkPolicy", "shop-headwater"]["spec"]["ingress"][0]
    assert [one["port"] for one in policy["ports"]] == [9001, 9002]


def test_headwater_reads_what_the_chart_writes(tmp_path: Path) -> None:
    values = example()
    environ = {one["variable"]: "pw" for one in values["secrets"]}
    written = configuration(resources(values))
    authority = str(tmp_path / "ca.pem")  # read with the configuration
    trustme.CA().cert_pem.write_to_path(authority)
    for section in (written["kafka"], written["stores"]["search"]):
        assert section["ssl_ca_location"] == "/etc/ca/ca.crt"
        section["ssl_ca_location"] = authority
    config = parse_config(written, environ, Path("/"))
    assert config.apply.state == "/var/lib/headwater"
    assert config.kafka.partitions == 6
    assert config.apply.clock_s == 30.5
    assert config.views["open_orders"].sql == values["config"]["views"]["open_orders"]["sql"]


def test_the_sections_of_its_configuration_are_those_of_headwater() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    assert set(schema["config"]["properties"]) == set(Config.model_fields) - {"metrics"}


def test_secrets_are_files_of_existing_ones_and_no_value_is_in_the_release() -> None:
    found = resources(example())
    assert not [kind for kind, _ in found if kind == "Secret"]
    for _, pod in pods(found):
        sources = next(v for v in pod["volumes"] if v["name"] == "secrets")["projected"]["sources"]
        files = {one["secret"]["items"][0]["path"]: one["secret"]["name"] for one in sources}
        assert files["KAFKA_PASSWORD"] == "headwater-kafka"
        for container in pod["containers"]:
            mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
            for one in container["env"]:
                assert one["value"] == f"{mounts['secrets']}/{one['name'].removesuffix('_FILE')}"


def test_a_view_that_is_added_restarts_nothing_and_another_setting_does() -> None:
    def checksums(values: dict[str, Any]) -> set[str]:
        return {
            one["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
            for (kind, _), one in resources(values).items()
            if kind in {"Deployment", "StatefulSet"}
        }

    view, setting = copy.deepcopy(MINIMAL), copy.deepcopy(MINIMAL)
    view["config"]["views"] = {"v": {"store": "s", "key": ["id"], "sql": "select id from t"}}
    setting["config"]["capture"] = {"heartbeat_s": 5}
    assert checksums(view) == checksums(MINIMAL)
    # serve reads the file once, and is in the pod of apply
    assert len(checksums({**view, **SERVE}) & checksums({**MINIMAL, **SERVE})) == 1
    assert checksums(setting).isdisjoint(checksums(MINIMAL))


def test_the_state_is_kept_and_its_removal_finds_it() -> None:
    (claim,) = resources(MINIMAL)["StatefulSet", "shop-headwater-apply"]["spec"][
        "volumeClaimTemplates"
    ]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    job = resources({**MINIMAL, **REMOVAL})["Job", "shop-headwater-uninstall"]
    state = next(v for v in job["spec"]["template"]["spec"]["volumes"] if v["name"] == "state")
    assert state["persistentVolumeClaim"]["claimName"] == "state-shop-headwater-apply-0"


@pytest.mark.parametrize("release", ["shop", "headwater", "my-headwater", "r" * 53])
def test_names_are_short_enough(release: str) -> None:
    assert all(len(name) <= 63 for _, name in resources(MINIMAL, release))


def test_the_rules_of_the_alarms_are_those_of_prometheus() -> None:
    rules = (CHART.parents[1] / "prometheus" / "headwater.rules.yml").read_text(encoding="utf-8")
    found = resources({**MINIMAL, "prometheusRule": {"enabled": True}})
    assert found["PrometheusRule", "shop-headwater"]["spec"] == yaml.safe_load(rules)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("capture.port", "abc", "/capture/port"),
        ("capture.replicas", 2, "replicas"),
        ("capture.terminationGracePeriodSeconds", 1, "/capture/terminationGracePeriodSeconds"),
        ("apply.terminationGracePeriodSeconds", 30, "/apply/terminationGracePeriodSeconds"),
        ("apply.persistence.size", 20, "/apply/persistence/size"),
        ("image.digest", "latest", "/image/digest"),
        ("secrets", [{"variable": "A", "value": "pw"}], "/secrets/0"),
        ("config.source", {"name": "shop"}, "/config/source"),
        ("config.metrics", {"capture": "9464"}, "metrics"),
        ("config.apply", {"state": "/tmp"}, "/config/apply"),
        ("podDisruptionBudget.maxUnavailable", "1", "/podDisruptionBudget/maxUnavailable"),
        ("networkPolicy.egressPorts", ["5432"], "/networkPolicy/egressPorts/0"),
        ("serviceMonitor.interval", 15, "/serviceMonitor/interval"),
        ("nonsense", {}, "nonsense"),
        ("serve.port", "8484", "/serve/port"),
        ("serve.replicas", 2, "replicas"),
        ("serve.tls", "secret", "/serve/tls"),
        ("serve.users.existingSecret", 1, "/serve/users/existingSecret"),
        ("serve.service.type", "External", "/serve/service/type"),
        ("serve.persistence.size", 10, "/serve/persistence/size"),
        ("config.serve", {"users": "/etc/users.toml"}, "/config/serve"),
        ("config.serve", {"behind_proxy": "10.0.0.0/8"}, "/config/serve/behind_proxy"),
        ("networkPolicy.serveFrom", {}, "/networkPolicy/serveFrom"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(
    path: str, value: object, said: str
) -> None:
    values = copy.deepcopy(MINIMAL)
    *above, last = path.split(".")
    node = values
    for name in above:
        node = node.setdefault(name, {})
    node[last] = value
    with pytest.raises(helm.HelmError) as caught:
        rendered(values)
    assert said in str(caught.value)


def test_a_release_without_a_configuration_is_refused() -> None:
    with pytest.raises(helm.HelmError, match="config"):
        rendered({})


def test_what_runs_is_not_removed() -> None:
    with pytest.raises(helm.HelmError, match=r"set capture\.enabled and apply\.enabled to false"):
        rendered({**MINIMAL, "uninstall": {"enabled": True}})
