"""The example Deployment: a real API server accepts it, and its command runs with the rights that it has."""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

import pytest
import yaml

from tests.integration.operator.stage import Stage, cluster
from tests.support.kube import PODS, ApiError, KubeCluster
from tests.support.places import ROOT
from tests.support.ports import reserve_ports
from tests.support.supervise import Process, last_lines
from tests.support.waiting import wait_until

FOLDER = ROOT / "examples" / "operator"
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def objects() -> list[dict[str, Any]]:
    """Return all objects of the folder, namespaces first."""
    found = [each for path in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text()) if each]
    return sorted(found, key=lambda each: each["kind"] != "Namespace")


def deployment() -> dict[str, Any]:
    """Return the Deployment."""
    (found,) = [each for each in objects() if each["kind"] == "Deployment"]
    return found


def container() -> dict[str, Any]:
    """Return the container of the Deployment."""
    (found,) = deployment()["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.fixture(scope="module")
def applied(kube: KubeCluster) -> Iterator[str]:
    """Apply `examples/operator` on a cluster with the CRDs, and return the operator's namespace."""
    kube.start().install_crds(ROOT / "crds")
    own = {each["metadata"]["name"] for each in objects() if each["kind"] == "Namespace"}
    users = {each["metadata"]["namespace"] for each in objects() if "namespace" in each["metadata"]} - own
    for name in users:  # the example namespaces of users
        kube.api.create("v1/namespaces", {"metadata": {"name": name}})
    try:
        for each in objects():
            kube.kubectl(
                "apply",
                "--server-side",
                "--field-manager=gitops",
                "--validate=strict",
                "-f",
                "-",
                stdin=yaml.safe_dump(each),
            )
        yield deployment()["metadata"]["namespace"]
    finally:
        for name in own | users:
            kube.delete_namespace(name)
        for each in objects():
            if each["kind"].startswith(("ClusterRole", "ValidatingAdmissionPolicy")):
                kube.kubectl("delete", each["kind"], each["metadata"]["name"], "--ignore-not-found")


def test_its_pod_is_accepted_under_the_policy_of_its_namespace(kube: KubeCluster, applied: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "as-the-controller-makes-it", "namespace": applied},
        "spec": deployment()["spec"]["template"]["spec"],
    }
    kube.api.request("POST", f"/api/v1/namespaces/{applied}/pods", pod, query={"dryRun": "All"})
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(ApiError, match="restricted"):
        kube.api.request("POST", f"/api/v1/namespaces/{applied}/pods", pod, query={"dryRun": "All"})
    assert kube.api.list(PODS, applied) == []


def test_the_deployed_command_serves_with_the_given_rights(
    kube: KubeCluster, applied: str, stage: Stage, tmp_path: Path
) -> None:
    content = container()
    ports = {each["name"]: each["containerPort"] for each in content["ports"]}
    (port,) = reserve_ports(1)
    arguments, moved = [], 0
    for argument in content["args"]:
        asked = urlsplit(argument.partition("=")[2]).port
        moved += asked in ports.values()
        arguments.append(argument.replace(f":{asked}", f":{port}"))
    assert moved == 1
    account = deployment()["spec"]["template"]["spec"]["serviceAccountName"]
    kubeconfig = kube.kubeconfig_of(applied, account)
    assert content["command"][:2] == ["python", "-m"]
    command = [sys.executable, *content["command"][1:], *arguments, "--kubeconfig", str(kubeconfig)]
    environment = kube.environment(kubeconfig) | {each["name"]: each["value"] for each in content["env"]}
    environment["PYTHONPATH"] = f"{ROOT / 'operator'}:{ROOT / 'spark_app'}"
    process = Process("The operator", tmp_path / "operator.log")
    process.launch(command, environment)

    def lives() -> None:
        assert process.running, last_lines(process.log)

    try:
        for probe in (content[each]["httpGet"] for each in PROBES if each in content):
            assert ports[probe["port"]]
            wait_until(lambda url=f"http://127.0.0.1:{port}{probe['path']}": answers(url), "a probe", failed=lives)  # type: ignore[misc]
        stage.stream("orders", cluster("east"))
        stage.subscription()
        stage.wait_document({"east/orders": "Active"})
        assert not re.search("forbidden|Traceback", process.log.read_text()), last_lines(process.log)
        process.stop()
        lease = kube.api.get("coordination.k8s.io/v1/leases", "kafkastream-operator", applied)
        assert not lease["spec"]["holderIdentity"]  # released, so that the next operator need not wait
    finally:
        process.kill()


def answers(url: str) -> bool:
    """Return whether a probe would succeed."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return 200 <= int(answer.status) < 400
    except (URLError, OSError):
        return False
