"""Kubeflow's spark-operator on the test cluster: the real controller, with a stub for spark-submit only."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.support.kube import APPLICATIONS, PODS, Json, KubeCluster, LocalNode, SparkOperator, set_phase

DEEP = pytest.mark.deep("the tests' own controller")


def application(namespace: str, name: str = "orders", **spec: Any) -> Json:
    """A streaming job as users write it."""
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": name, "namespace": namespace, "labels": {"team": "a"}},
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "4.2.0",
            "image": "spark:test",
            "mainApplicationFile": "local:///opt/app/job.py",
            "arguments": ["--conf", "mine=1"],
            "restartPolicy": {"type": "Never"},
            "driver": {"serviceAccount": "default", "annotations": {"example.com/revision": "1"}},
            "executor": {"instances": 1},
            **spec,
        },
    }


def state(spark_app: Json | None) -> str:
    return "" if spark_app is None else str(spark_app.get("status", {}).get("applicationState", {}).get("state", ""))


def submission(spark_app: Json | None) -> str:
    return "" if spark_app is None else str(spark_app.get("status", {}).get("submissionID", ""))


def submitted(kube: KubeCluster, namespace: str, name: str = "orders") -> tuple[Json, Json]:
    """The application once it is submitted, and its driver's pod."""
    spark_app = kube.api.wait(APPLICATIONS, name, namespace, until=lambda app: state(app) == "SUBMITTED")
    assert spark_app is not None
    return spark_app, kube.api.get(PODS, f"{name}-driver", namespace)


@DEEP
def test_an_application_becomes_a_drivers_pod(kube: KubeCluster, namespace: str, spark_operator: SparkOperator) -> None:
    spark_conf = {"spark.kubernetes.driver.secrets.east": "/etc/secrets/east"}
    kube.api.create(APPLICATIONS, application(namespace, sparkConf=spark_conf))

    spark_app, pod = submitted(kube, namespace)

    metadata, spec = pod["metadata"], pod["spec"]
    assert (
        metadata["labels"].items()
        >= {
            "spark-role": "driver",
            "spark-app-name": "orders",
            "sparkoperator.k8s.io/app-name": "orders",
            "sparkoperator.k8s.io/launched-by-spark-operator": "true",
            "sparkoperator.k8s.io/submission-id": submission(spark_app),
            "team": "a",
        }.items()
    )
    assert metadata["annotations"] == {"example.com/revision": "1"}
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == [spark_app["metadata"]["uid"]]
    (container,) = spec["containers"]
    assert (container["name"], container["image"]) == ("spark-kubernetes-driver", "spark:test")
    assert container["args"] == ["driver", "local:///opt/app/job.py", "--conf", "mine=1"]
    assert {"name": "east-volume", "mountPath": "/etc/secrets/east"} in container["volumeMounts"]
    assert spec["serviceAccountName"] == "default"
    assert [call.pod for call in spark_operator.submissions("orders")] == ["orders-driver"]


@DEEP
def test_the_pods_status_becomes_the_applications(
    kube: KubeCluster, namespace: str, spark_operator: SparkOperator
) -> None:
    for name, phase, expected in (("good", "Succeeded", "COMPLETED"), ("bad", "Failed", "FAILED")):
        kube.api.create(APPLICATIONS, application(namespace, name))
        _, pod = submitted(kube, namespace, name)

        pod = set_phase(kube.api, pod, "Running")
        kube.api.wait(APPLICATIONS, name, namespace, until=lambda app: state(app) == "RUNNING")
        set_phase(kube.api, pod, phase)  # type: ignore[arg-type]

        kube.api.wait(APPLICATIONS, name, namespace, until=lambda app, expected=expected: state(app) == expected)


@DEEP
def test_a_patched_spec_is_submitted_anew(kube: KubeCluster, namespace: str, spark_operator: SparkOperator) -> None:
    kube.api.create(APPLICATIONS, application(namespace))
    first, pod = submitted(kube, namespace)
    set_phase(kube.api, pod, "Running")
    kube.api.wait(APPLICATIONS, "orders", namespace, until=lambda app: state(app) == "RUNNING")

    patch = {"spec": {"driver": {"annotations": {"example.com/revision": "2"}}}}
    kube.api.patch(APPLICATIONS, "orders", namespace, patch)

    kube.api.wait(APPLICATIONS, "orders", namespace, until=lambda app: submission(app) not in ("", submission(first)))
    second = kube.api.wait(PODS, "orders-driver", namespace, until=lambda found: found is not None)
    assert second is not None
    assert second["metadata"]["uid"] != pod["metadata"]["uid"]
    assert second["metadata"]["annotations"] == {"example.com/revision": "2"}
    assert len(spark_operator.submissions("orders")) == 2


@DEEP
def test_it_goes_on_after_it_was_killed(kube: KubeCluster, namespace: str, spark_operator: SparkOperator) -> None:
    spark_operator.kill()
    kube.api.create(APPLICATIONS, application(namespace))
    stopped = not spark_operator.running and not spark_operator.submissions()

    spark_operator.start()

    submitted(kube, namespace)
    assert stopped


DRIVER = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("told to end")))
print("up", flush=True)
signal.pause()
"""


def test_a_real_process_is_the_driver(kube: KubeCluster, namespace: str, spark_operator: SparkOperator) -> None:
    with LocalNode(kube, namespace, lambda pod: [sys.executable, "-c", DRIVER]) as node:
        node.start()
        kube.api.create(APPLICATIONS, application(namespace))
        first = kube.api.wait(APPLICATIONS, "orders", namespace, until=lambda app: state(app) == "RUNNING")
        pid = node.pid("orders-driver")
        node.wait_for_output("orders-driver", "up\n")

        kube.api.patch(APPLICATIONS, "orders", namespace, {"spec": {"sparkConf": {"a": "2"}}})

        kube.api.wait(
            APPLICATIONS,
            "orders",
            namespace,
            until=lambda app: state(app) == "RUNNING" and submission(app) != submission(first),
        )
        node.wait_for_output("orders-driver", "told to end\nup\n")
        assert node.pid("orders-driver") != pid
        assert node.output("orders-driver").splitlines() == ["up", "told to end", "up"]
