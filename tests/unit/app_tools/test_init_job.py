"""`manifest --init`: the Job that makes internal topics as a GitOps hook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dynamic_kafka.app.cli import main
from dynamic_kafka.contract.kubernetes_names import MOUNT_PATH, SECRETS_PATH

APP = """\
name: shop
metadata: {metadata}
streams: {{ids: [orders]}}
checkpoint: s3a://bucket/checkpoint
sinks: [{{name: out, type: console}}]
internalTopics:
  {home}
  topics: [{{name: offsets, kind: changelog}}]
"""
COMMAND = ["manifest", "--for", "kubeflow", "--init", "--namespace", "jobs"]


def write(folder: Path, *, metadata: str = MOUNT_PATH, home: str = "bootstrapServers: k:9092") -> str:
    app = folder / "app.yaml"
    app.write_text(APP.format(metadata=metadata, home=home))
    return str(app)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*COMMAND, "--image", "reg/app:1", *arguments]) == 0
    job: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return job


def hook(job: dict[str, Any]) -> tuple[str, str | None]:
    annotations = job["metadata"]["annotations"]
    return annotations["argocd.argoproj.io/hook"], annotations.get("argocd.argoproj.io/sync-wave")


def test_a_home_of_its_own_needs_no_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = printed(capsys, write(tmp_path))
    pod = job["spec"]["template"]["spec"]
    assert (job["kind"], job["metadata"]["name"], job["metadata"]["namespace"]) == ("Job", "shop-init", "jobs")
    assert hook(job) == ("PreSync", None)
    assert pod["containers"][0]["command"] == ["dynamic-kafka", "init", "/etc/shop/app.yaml", "--skip-source-topics"]
    assert [volume.get("configMap") for volume in pod["volumes"]] == [{"name": "shop-config"}, None]


def test_a_home_in_the_metadata_waits_for_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = printed(capsys, write(tmp_path, home="cluster: east"), "--secret", "east-login", "--config-map", "files")
    pod = job["spec"]["template"]["spec"]
    assert hook(job) == ("Sync", "1")
    assert pod["containers"][0]["command"] == ["dynamic-kafka", "init", "/etc/shop/app.yaml"]
    names = [volume.get("configMap", {}).get("name") for volume in pod["volumes"]]
    assert names == ["files", None, "shop-kafkastreams", None]
    assert {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]} == {
        "/etc/shop",
        "/tmp",
        MOUNT_PATH,
        f"{SECRETS_PATH}/east-login",
    }


def test_metadata_of_another_place_is_checked_before_the_sync(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = printed(capsys, write(tmp_path, metadata="/opt/streams.yaml", home="cluster: east"))
    assert hook(job) == ("PreSync", None)
    assert "--skip-source-topics" not in job["spec"]["template"]["spec"]["containers"][0]["command"]


def test_it_has_no_rights_and_no_attempt_in_vain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = printed(capsys, write(tmp_path))["spec"]
    assert spec["template"]["spec"]["automountServiceAccountToken"] is False
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2, 4, 10, 11, 12])
    assert 5 not in rule["onExitCodes"]["values"], "a cluster that does not answer is asked again"


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, write(tmp_path)]) == 2
    assert "--image" in capsys.readouterr().err
    app = tmp_path / "plain.yaml"
    app.write_text(APP.format(metadata=MOUNT_PATH, home="x").partition("internalTopics")[0])
    assert main([*COMMAND, "--image", "reg/app:1", str(app)]) == 2
    assert "declares no `internalTopics`" in capsys.readouterr().err
    assert main([*COMMAND, "--image", "reg/app:1", "--name", "s" * 60, write(tmp_path)]) == 2
    assert "more than 63 characters" in capsys.readouterr().err
