"""`manifest`: the printed YAML is what the operator needs, for both kinds of SparkApplication."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dynamic_kafka.app.cli import main
from dynamic_kafka.contract.kubernetes_names import MOUNT_PATH, config_map_name
from kafkastream_operator.core.application import Application
from kafkastream_operator.spark import apache
from kafkastream_operator.spark.kubeflow import application_of

APP = """\
name: {name}
metadata: {metadata}
streams: {{ids: [orders]}}
checkpoint: /data/checkpoint
sinks: [{{name: out, type: console}}]
"""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["manifest", *arguments]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["manifest", *arguments]) == 2
    message = capsys.readouterr()
    assert message.out == ""
    return message.err


def test_for_kubeflow_the_operator_finds_its_document_mounted(capsys: pytest.CaptureFixture[str]) -> None:
    app, application, *_ = printed(capsys, "--for", "kubeflow", "--name", "shop", "--namespace", "jobs")

    assert app == {"metadata": MOUNT_PATH}
    assert application == {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "shop", "namespace": "jobs"},
        "spec": {
            "driver": {
                "serviceAccount": "spark-operator-spark",
                "configMaps": [{"name": "shop-kafkastreams", "path": MOUNT_PATH}],
            }
        },
    }
    assert config_map_name("shop") == "shop-kafkastreams"


@pytest.mark.parametrize(
    ("more", "ends"), [("recordEvaluator: m:End", True), ("endingOffsets: latest", True), ("", False)]
)
@pytest.mark.parametrize("operator", ["kubeflow", "apache"])
def test_an_application_that_ends_by_itself_is_not_run_again(
    operator: str, more: str, ends: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = tmp_path / "app.yaml"
    options = f"options: {{{more}}}\n" if more else ""
    app.write_text(APP.format(name="shop", metadata=MOUNT_PATH) + options)
    assert main(["manifest", "--for", operator, str(app)]) == 0
    shown = capsys.readouterr()
    application = next(yaml.safe_load_all(shown.out))
    application["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    read = application_of if operator == "kubeflow" else apache.application_of
    assert read(application).runs_again == ""
    assert ("OnFailure" in str(application["spec"])) == ends
    assert ("note: this application ends by itself" in shown.err) == ends


def test_for_apache_the_pod_template_mounts_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    app, application, *_ = printed(capsys, "--for", "apache", "--name", "shop")

    assert app == {"metadata": MOUNT_PATH}
    assert (application["apiVersion"], application["kind"]) == ("spark.apache.org/v1", "SparkApplication")
    assert application["spec"]["sparkConf"] == {"spark.kubernetes.authenticate.driver.serviceAccountName": "spark"}
    assert application["spec"]["driverSpec"]["podTemplateSpec"]["spec"] == {
        "containers": [
            {
                "name": "spark-kubernetes-driver",
                "volumeMounts": [{"name": "kafkastreams", "mountPath": MOUNT_PATH, "readOnly": True}],
            }
        ],
        "volumes": [{"name": "kafkastreams", "configMap": {"name": "shop-kafkastreams"}}],
    }
    assert config_map_name("shop") == "shop-kafkastreams"


STREAM = """\
kind: KafkaStream
spec:
  clusters:
    - {id: east, secretRef: {name: east-login}}
    - {id: west}
---
kind: ConfigMap
---
kind: KafkaStream
spec: {clusters: [{id: north, secretRef: {name: 1e3}}]}
"""


@pytest.mark.parametrize(("operator", "read"), [("kubeflow", application_of), ("apache", apache.application_of)])
def test_secrets_are_mounted_where_the_operator_expects_them(
    operator: str, read: Callable[..., Application], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "streams.yaml"
    path.write_text(STREAM)
    _, application, *_ = printed(
        capsys, "--for", operator, "--name", "shop", "--secret", "other", "--secret", "other", "--stream", str(path)
    )
    application["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    manifest = read(application)
    assert manifest.mounts == {"east-login", "other", "1e3"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: ConfigMap", "has no KafkaStream"),
        ("[{streamId: orders, clusterMetadataList: []}]", "list form has no Secrets, and is not needed"),
        ("kind: KafkaStream", "is not a valid KafkaStream"),
        ("a: [", "cannot be read"),
        (
            "{kind: KafkaStream, spec: {clusters: [{secretRef: {name: 'A B'}}]}}",
            "'A B' is not a valid name",
        ),
        ("{kind: KafkaStream, spec: {clusters: [{secretRef: {name: my.login}}]}}", "'my.login' cannot be mounted"),
        (f"{{kind: KafkaStream, spec: {{clusters: [{{secretRef: {{name: {'a' * 57}}}}}]}}}}", "at most 56 characters"),
        (None, "cannot be read"),
    ],
)
def test_a_file_without_valid_streams_is_refused(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "streams.yaml"
    if text is not None:
        path.write_text(text)
    assert message in refused(capsys, "--for", "apache", "--name", "shop", "--stream", str(path))


@pytest.mark.parametrize("operator", ["kubeflow", "apache"])
def test_the_driver_may_get_and_patch_pods_only(operator: str, capsys: pytest.CaptureFixture[str]) -> None:
    *_, role, binding = printed(
        capsys, "--for", operator, "--name", "shop", "--namespace", "jobs", "--service-account", "mine"
    )
    assert role == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "kafkastream-reporter", "namespace": "jobs"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}],
    }
    assert binding == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "kafkastream-reporter-mine", "namespace": "jobs"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kafkastream-reporter"},
        "subjects": [{"kind": "ServiceAccount", "name": "mine", "namespace": "jobs"}],
    }


def test_the_name_is_that_of_app_yaml_unless_another_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(APP.format(name="shop", metadata="/elsewhere"))
    app, application, *_ = printed(capsys, "--for", "kubeflow", str(path))
    assert (app["metadata"], application["metadata"]["name"]) == (MOUNT_PATH, "shop")
    _, application, *_ = printed(capsys, "--for", "kubeflow", str(path), "--name", "shop-eu")
    assert application["metadata"]["name"] == "shop-eu"


@pytest.mark.parametrize("metadata", [MOUNT_PATH, MOUNT_PATH + "/"])
def test_a_line_that_app_yaml_has_already_is_left_out(
    metadata: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(APP.format(name="shop", metadata=metadata))
    kinds = [each.get("kind") for each in printed(capsys, "--for", "apache", str(path))]
    assert kinds == ["SparkApplication", "Role", "RoleBinding"]


@pytest.mark.parametrize("name", ["1e3", "true", "0123", "a" * 253, "shop.eu"])
def test_every_name_that_kubernetes_has_stays_a_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, application, *_ = printed(capsys, "--for", "kubeflow", "--name", name)
    assert application["metadata"]["name"] == name
    assert application["spec"]["driver"]["configMaps"][0]["name"] == config_map_name(name), "as the operator calls it"


def test_an_invalid_kubernetes_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(APP.format(name="My_Shop", metadata="/elsewhere"))
    message = refused(capsys, "--for", "kubeflow", str(path))
    assert "'My_Shop' is not a valid name in Kubernetes" in message and "with --name" in message
    message = refused(capsys, "--for", "kubeflow", "--name", "shop", "--service-account", "a:b")
    assert "'a:b' is not a valid name in Kubernetes" in message and "with --service-account" in message


def test_without_any_name_the_error_names_the_ways_to_give_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give an app.yaml, or the SparkApplication's name with --name" in refused(capsys, "--for", "apache")
