"""The driver's own pod on a real API server, with only the rights of examples/kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dynamic_kafka.driver.report.pod import OwnPod, PodError, own_pod
from tests.support.kube import PODS, KubeCluster
from tests.support.places import ROOT
from tests.support.waiting import wait_until

ACCOUNT = "shop-driver"
EXAMPLE = ROOT / "examples" / "kubernetes" / "kubeflow.yaml"
DRIVER: dict[str, Any] = {
    "metadata": {"name": "shop-driver", "annotations": {"of-somebody-else": "kept"}},
    "spec": {"serviceAccountName": ACCOUNT, "containers": [{"name": "spark-kubernetes-driver", "image": "shop"}]},
}


@pytest.fixture
def pod(kube: KubeCluster, namespace: str, tmp_path: Path) -> OwnPod:
    """A driver's pod as its own service account sees it, mounted as Kubernetes does."""
    kube.api.create("v1/serviceaccounts", {"metadata": {"name": ACCOUNT}}, namespace)
    kube.api.create(PODS, DRIVER, namespace)
    its = kube.client(kube.kubeconfig_of(namespace, ACCOUNT)).config
    for name, content in (("token", its.token), ("namespace", namespace), ("ca.crt", its.authority)):
        (tmp_path / name).write_text(content)
    host, _, port = its.server.removeprefix("https://").rpartition(":")
    environment = {
        "KAFKASTREAMS_SERVICE_ACCOUNT": str(tmp_path),
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
    }
    own = own_pod(environment, "shop-driver", "host")
    assert own is not None
    return own


def may_get_pods(kube: KubeCluster, namespace: str) -> bool:
    """Return the answer of the API server's authorizer, which reads a new Role a moment after its creation."""
    asked = {"namespace": namespace, "verb": "get", "resource": "pods"}
    review = {"spec": {"user": f"system:serviceaccount:{namespace}:{ACCOUNT}", "resourceAttributes": asked}}
    answer = kube.api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_the_examples_role_is_what_it_takes_and_no_more(pod: OwnPod, kube: KubeCluster, namespace: str) -> None:
    with pytest.raises(PodError, match=r"User .*shop-driver.* needs a Role") as refused:
        pod.uid()
    assert refused.value.kind == "forbidden"

    text = EXAMPLE.read_text(encoding="utf-8").replace("spark-operator-spark", ACCOUNT)
    *_, role, binding = yaml.safe_load_all(text.replace("namespace: spark-jobs", f"namespace: {namespace}"))
    kube.api.create("rbac.authorization.k8s.io/v1/roles", role)
    kube.api.create("rbac.authorization.k8s.io/v1/rolebindings", binding)

    wait_until(lambda: may_get_pods(kube, namespace), "the Role to be in force")
    uid = pod.uid()
    pod.annotate(uid, {"kafkastream.dev/report": '{"beat":1}'})
    pod.annotate(uid, {"kafkastream.dev/report": '{"beat":2}'})
    patched = kube.api.get(PODS, pod.name, namespace)
    assert patched["metadata"]["uid"] == uid
    assert patched["metadata"]["annotations"] == {"of-somebody-else": "kept", "kafkastream.dev/report": '{"beat":2}'}

    # Kubeflow's next driver has the same name.
    kube.api.delete(PODS, pod.name, namespace, gracePeriodSeconds=0)
    kube.api.wait(PODS, pod.name, namespace, until=lambda driver_pod: driver_pod is None)
    with pytest.raises(PodError, match="no pod 'shop-driver' in namespace"):
        pod.annotate(uid, {"kafkastream.dev/report": '{"beat":3}'})
    kube.api.create(PODS, DRIVER, namespace)
    with pytest.raises(PodError, match="answered with 4"):
        pod.annotate(uid, {"kafkastream.dev/report": '{"beat":3}'})
    assert kube.api.get(PODS, pod.name, namespace)["metadata"]["annotations"] == {"of-somebody-else": "kept"}
