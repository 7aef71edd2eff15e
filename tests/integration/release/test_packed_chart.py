"""`make chart`: the packed chart runs the image of the release, by its digest."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import yaml

from tests.support.go import executable
from tests.support.images import version
from tests.support.kube_programs import HELM
from tests.support.places import ROOT

IMAGE = "registry.example/team/kafkastream-operator"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def pack(folder: Path, image: str, digest: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HELM": str(executable(HELM))}
    command = [ROOT / ".ci" / "chart", folder, image, digest]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_packed_chart_names_the_image_by_digest(tmp_path: Path) -> None:
    assert pack(tmp_path, IMAGE, DIGEST).returncode == 0
    chart = tmp_path / f"kafkastream-operator-{version()}.tgz"
    command = [executable(HELM), "template", "release", "--kube-version=1.37.1", chart]
    objects = yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    [deployment] = [manifest for manifest in objects if manifest and manifest["kind"] == "Deployment"]
    images = {container["image"] for container in deployment["spec"]["template"]["spec"]["containers"]}
    assert images == {f"{IMAGE}@{DIGEST}"}


def test_a_chart_without_a_digest_is_refused(tmp_path: Path) -> None:
    done = pack(tmp_path, IMAGE, "latest")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "DIGEST=sha256:" in done.stderr


def test_the_versions_of_chart_and_package_agree() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "kafkastream-operator" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version(), version())
