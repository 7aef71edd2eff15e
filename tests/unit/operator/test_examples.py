"""`examples/kubernetes`: the operator finds all that it needs, and the Job repeats nothing in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from dynamic_kafka.contract.exit_codes import MEANINGS, ExitCode
from dynamic_kafka.contract.kubernetes_names import MOUNT_PATH, config_map_name
from kafkastream_operator.core.application import Application
from kafkastream_operator.spark import apache
from kafkastream_operator.spark.kubeflow import application_of
from tests.support.places import ROOT

READERS = {"kubeflow": application_of, "apache": apache.application_of}


def objects(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "examples" / "kubernetes" / name).read_text(encoding="utf-8")))


def mounted_config_maps(application: dict[str, Any]) -> dict[str, str]:
    """Return {ConfigMap: folder} of the driver."""
    spec = application["spec"]
    if "driver" in spec:
        return {item["name"]: item["path"] for item in spec["driver"]["configMaps"]}
    pod = spec["driverSpec"]["podTemplateSpec"]["spec"]
    (container,) = pod["containers"]
    folders = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    return {volume["configMap"]["name"]: folders[volume["name"]] for volume in pod["volumes"]}


@pytest.mark.parametrize(("operator", "read"), READERS.items())
def test_the_operator_finds_document_secret_and_right(operator: str, read: Callable[..., Application]) -> None:
    example, _, binding = objects(f"{operator}.yaml")
    example["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    assert mounted_config_maps(example)[config_map_name("orders-app")] == MOUNT_PATH
    assert read(example).mounts == {"east-login"}
    conf, driver = example["spec"]["sparkConf"], example["spec"].get("driver", {})
    account = driver.get("serviceAccount") or conf["spark.kubernetes.authenticate.driver.serviceAccountName"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "spark-jobs"}]


def test_no_attempt_of_the_job_is_in_vain() -> None:
    (job,) = objects("init-job.yaml")
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    codes = set(rule["onExitCodes"]["values"])
    assert codes == {2, 4, 10, 11, 12} and codes <= {int(code) for code in MEANINGS}
    assert ExitCode.CLUSTER not in codes, "a cluster that does not answer is asked again"
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
