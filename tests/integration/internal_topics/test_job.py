"""The Job of `manifest --init` on a real API server, which refuses unknown fields."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dynamic_kafka.app.cli import main
from tests.support.kube import KubeCluster
from tests.unit.app_tools.test_init_job import write


@pytest.mark.parametrize("home", ["bootstrapServers: k:9092", "cluster: east"])
def test_the_api_server_accepts_every_field_of_the_job(
    home: str, kube: KubeCluster, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--init", "--image", "reg/app:1", "--namespace", namespace, "--secret", "login"]
    assert main(["manifest", "--for", "kubeflow", *arguments, write(tmp_path, home=home)]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    made = kube.api.request("POST", path, job, query={"fieldValidation": "Strict"})
    pods = [each["spec"]["template"]["spec"] for each in (made, job)]
    assert len({tuple(volume["name"] for volume in pod["volumes"]) for pod in pods}) == 1
    assert made["spec"]["podFailurePolicy"]["rules"][0]["action"] == "FailJob"
