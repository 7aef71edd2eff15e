"""The stub for spark-submit names, labels and fills the driver's pod as Spark does."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.support.kube.spark_submit import driver_pod, parse


def arguments(*conf: str) -> list[str]:
    given = ["--master", "k8s://https://127.0.0.1:1", "--deploy-mode", "cluster", "--name", "orders"]
    for setting in ("spark.kubernetes.namespace=jobs", "spark.kubernetes.driver.pod.name=orders-driver", *conf):
        given += ["--conf", setting]
    return [*given, "local:///job.py", "--conf", "of=the job"]


def test_options_end_at_the_application() -> None:
    conf, application = parse(arguments("spark.driver.extraJavaOptions=-Da=b"))

    assert conf["spark.driver.extraJavaOptions"] == "-Da=b"
    assert application == ["local:///job.py", "--conf", "of=the job"]
    assert "of" not in conf


def test_a_driver_pod_has_sparks_names_and_labels() -> None:
    pod = driver_pod(
        arguments(
            "spark.kubernetes.driver.label.spark-role=mine",
            "spark.kubernetes.driver.annotation.a/b=c=d",
            "spark.kubernetes.driverEnv.LEVEL=1",
            "spark.kubernetes.container.image=all",
            "spark.kubernetes.driver.container.image=drivers",
            "spark.kubernetes.authenticate.driver.serviceAccountName=spark",
        )
    )

    (container,) = pod["spec"]["containers"]
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == ("orders-driver", "jobs")
    assert pod["metadata"]["labels"]["spark-role"] == "driver"
    assert pod["metadata"]["annotations"] == {"a/b": "c=d"}
    assert {"name": "LEVEL", "value": "1"} in container["env"]
    assert container["image"] == "drivers"
    assert (pod["spec"]["serviceAccountName"], pod["spec"]["restartPolicy"]) == ("spark", "Never")


def test_a_pod_template_is_kept(tmp_path: Path) -> None:
    volumes = [{"name": "streams", "configMap": {"name": "orders-kafkastreams"}}]
    containers = [{"name": "sidecar"}, {"name": "spark-kubernetes-driver", "volumeMounts": [{"name": "streams"}]}]
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {"volumes": volumes, "containers": containers}}
    (tmp_path / "template.yaml").write_text(yaml.safe_dump(template))

    pod = driver_pod(
        arguments(
            f"spark.kubernetes.driver.podTemplateFile={tmp_path / 'template.yaml'}",
            "spark.kubernetes.driver.podTemplateContainerName=spark-kubernetes-driver",
            "spark.kubernetes.driver.secrets.east=/etc/east",
        )
    )

    sidecar, driver = pod["spec"]["containers"]
    assert "args" not in sidecar
    assert driver["args"] == ["driver", "local:///job.py", "--conf", "of=the job"]
    assert [mount["name"] for mount in driver["volumeMounts"]] == ["streams", "east-volume"]
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["streams", "east-volume"]
    assert pod["metadata"]["labels"]["team"] == "a"
