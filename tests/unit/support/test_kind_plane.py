"""On a machine with Docker and kind, tests use a kind cluster. Both are scripts here that record their calls."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.certificates import CertificateAuthority
from tests.support.kube.errors import KubeError
from tests.support.kube.kind_plane import KindPlane, kind_is_usable
from tests.support.kube.kubeconfig import Kubeconfig

FAKE = """\
#!/bin/sh
echo "$(basename $0) $*" >> "$FAKE_FOLDER/calls"
case "$(basename $0) $1 $2" in
    "docker info "*) exit ${DOCKER_INFO:-0} ;;
    "kind get clusters") cat "$FAKE_FOLDER/clusters" ;;
    "kind create cluster") cp "$FAKE_FOLDER/kubeconfig" "$4" ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on the path with `docker`, `kind` and the configuration that kind writes."""
    folder = tmp_path / "fake"
    folder.mkdir()
    for name in ("docker", "kind"):
        (folder / name).write_text(FAKE)
        (folder / name).chmod(0o755)
    (folder / "clusters").touch()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_FOLDER", str(folder))
    monkeypatch.delenv("DYNAMIC_KAFKA_CLUSTER", raising=False)
    return folder


@pytest.fixture
def plane(fake: Path, tmp_path: Path) -> KindPlane:
    folder = tmp_path / "01-kube"
    folder.mkdir()
    return KindPlane(folder)


def write_config(fake: Path, server: str = "https://127.0.0.1:1", context: str | None = None) -> None:
    authority = CertificateAuthority(fake).certificate_file.read_text()
    own = f"kind-dynamic-kafka-test-{os.getpid()}-01-kube"
    Kubeconfig(server, authority, token="x", context=context or own).write(fake / "kubeconfig")


def calls(fake: Path) -> list[str]:
    return (fake / "calls").read_text().splitlines()


def test_kind_is_used_if_docker_works(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_both = kind_is_usable()
    monkeypatch.setenv("DOCKER_INFO", "1")
    without_daemon = kind_is_usable()
    monkeypatch.setenv("DYNAMIC_KAFKA_CLUSTER", "kind")
    wanted = kind_is_usable()
    monkeypatch.setenv("DYNAMIC_KAFKA_CLUSTER", "local")
    unwanted = kind_is_usable()

    assert (with_both, without_daemon, wanted, unwanted) == (True, False, True, False)


def test_an_unknown_choice_is_refused(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMIC_KAFKA_CLUSTER", "minikube")

    with pytest.raises(KubeError, match=r"DYNAMIC_KAFKA_CLUSTER is 'minikube'.*`local`.*`kind`"):
        kind_is_usable()


def test_the_cluster_has_its_own_name_and_configuration(fake: Path, plane: KindPlane, tmp_path: Path) -> None:
    write_config(fake)

    plane.start()
    plane.close()

    name = f"dynamic-kafka-test-{os.getpid()}-01-kube"
    config = tmp_path / "01-kube" / "data" / "kind.kubeconfig"
    assert plane.admin.token == "x"
    assert calls(fake) == [
        "kind get clusters",
        f"kind create cluster --kubeconfig {config} --wait 60s --name {name}",
        f"kind export logs {tmp_path / '01-kube' / 'logs'} --name {name}",
        f"kind delete cluster --kubeconfig {config} --name {name}",
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"context": "kind-somebodys"}, "is of kind-somebodys, and not of kind-dynamic-kafka-test-"),
        ({"server": "https://10.0.0.1:6443"}, r"leads to https://10\.0\.0\.1:6443: tests use only clusters on"),
        ({"server": "http://127.0.0.1:6443"}, r"leads to http://127\.0\.0\.1:6443"),
    ],
)
def test_another_cluster_is_refused(fake: Path, plane: KindPlane, config: dict[str, str], message: str) -> None:
    write_config(fake, **config)

    with pytest.raises(KubeError, match=message):
        plane.start()


def test_only_unused_clusters_are_deleted(fake: Path, plane: KindPlane) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    write_config(fake)
    (fake / "clusters").write_text(
        f"kind\ndynamic-kafka-test-{ended.pid}-01-kube\ndynamic-kafka-test-{os.getpid()}-x\n"
    )

    plane.start()

    deleted = [call.split()[-3] for call in calls(fake) if call.startswith("kind delete")]
    assert deleted == [f"dynamic-kafka-test-{ended.pid}-01-kube"]


def test_a_stopped_api_server_is_not_restarted(fake: Path, plane: KindPlane) -> None:
    write_config(fake)
    plane.start()

    plane.stop_api_server()
    plane.pause_api_server()
    plane.resume_api_server()

    scripts = [call.partition(" sh -c ")[2] for call in calls(fake) if call.startswith("docker exec")]
    assert scripts == [
        "mv /etc/kubernetes/manifests/kube-apiserver.yaml /kube-apiserver.yaml; pkill -9 kube-apiserver",
        "pkill -STOP kube-apiserver",
        "pkill -CONT kube-apiserver",
    ]
