"""The test cluster itself: as strict as a real one, ours alone, and gone when its session is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.certificates import CertificateAuthority
from tests.support.kube import Api, ApiError, ApiUnreachableError, Json, KubeCluster, KubeError
from tests.support.kube import local_plane as local_plane_module
from tests.support.kube.kubeconfig import Kubeconfig
from tests.support.kube.local_plane import LocalPlane
from tests.support.sessions import all_end, ended_session

pytestmark = pytest.mark.deep("the tests' own cluster")

CONFIG_MAPS = "v1/configmaps"
READ_CONFIG_MAPS: Json = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}


def config_map(namespace: str, name: str = "settings", **data: str) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


def status_of(refused: Callable[[], object]) -> int:
    with pytest.raises(ApiError) as caught:
        refused()
    return caught.value.status


def test_who_does_not_say_who_it_is_is_refused(kube: KubeCluster) -> None:
    # kind's API server gives them a name, but nothing that they may do.
    assert status_of(lambda: kube.anonymous().list("v1/namespaces")) == (401 if kube.pids() else 403)


def test_a_certificate_of_another_authority_is_nobody(kube: KubeCluster, tmp_path: Path) -> None:
    pair = CertificateAuthority(tmp_path).issue(tmp_path / "me.pem", "admin", "system:masters").read_text()
    own = kube.api.config
    stranger = Api(Kubeconfig(own.server, own.authority, certificate=pair, key=pair))

    with pytest.raises((ApiError, ApiUnreachableError), match=r"401|certificate"):
        stranger.list("v1/namespaces")


def test_a_role_allows_what_it_says_and_nothing_else(kube: KubeCluster, namespace: str) -> None:
    kube.api.create(CONFIG_MAPS, config_map(namespace, level="1"))

    reader = kube.client(kube.service_account(namespace, "reader", [READ_CONFIG_MAPS]))

    assert reader.get(CONFIG_MAPS, "settings", namespace)["data"] == {"level": "1"}
    assert status_of(lambda: reader.delete(CONFIG_MAPS, "settings", namespace)) == 403
    assert status_of(lambda: reader.list("v1/secrets", namespace)) == 403
    assert status_of(lambda: reader.list(CONFIG_MAPS, "default")) == 403
    assert status_of(lambda: reader.list(CONFIG_MAPS)) == 403


def test_a_cluster_role_allows_it_everywhere(kube: KubeCluster, namespace: str) -> None:
    reader = kube.client(kube.service_account(namespace, "wide-reader", cluster_rules=[READ_CONFIG_MAPS]))

    assert reader.list(CONFIG_MAPS)
    assert status_of(lambda: reader.list("v1/secrets")) == 403


def test_a_test_has_namespaces_of_its_own_that_vanish_whole(kube: KubeCluster) -> None:
    first, second = kube.new_namespace(), kube.new_namespace()
    kube.api.create(
        "v1/pods", {"metadata": {"name": "at-once"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}, first
    )

    kube.delete_namespace(first)

    assert first != second
    assert kube.api.wait("v1/namespaces", first, until=lambda found: found is None) is None
    assert kube.api.list("v1/pods", first) == []
    assert kube.api.find("v1/namespaces", second) is not None
    kube.delete_namespace(second)


def test_what_is_owned_goes_with_its_owner(kube: KubeCluster, namespace: str) -> None:
    owner = kube.api.create(CONFIG_MAPS, config_map(namespace, "owner"))["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    owned = config_map(namespace, "owned")
    owned["metadata"]["ownerReferences"] = [reference]
    kube.api.create(CONFIG_MAPS, owned)

    kube.api.delete(CONFIG_MAPS, "owner", namespace)

    assert kube.api.wait(CONFIG_MAPS, "owned", namespace, until=lambda found: found is None) is None


def test_the_api_server_dies_and_comes_back_with_its_data(kube: KubeCluster, namespace: str) -> None:
    kube.api.create(CONFIG_MAPS, config_map(namespace, level="1"))
    reader = kube.client(kube.service_account(namespace, "reader", [READ_CONFIG_MAPS]))

    kube.stop_api_server()
    with pytest.raises(ApiUnreachableError):
        reader.get(CONFIG_MAPS, "settings", namespace)
    kube.start_api_server()

    assert reader.get(CONFIG_MAPS, "settings", namespace)["data"] == {"level": "1"}


def test_the_api_server_hangs_and_goes_on(kube: KubeCluster) -> None:
    kube.pause_api_server()
    hangs = not kube.api.ready()
    kube.resume_api_server()

    assert hangs
    assert kube.api.ready()


def test_a_wait_sees_the_change_and_says_what_it_saw_instead(kube: KubeCluster, namespace: str) -> None:
    kube.api.create(CONFIG_MAPS, config_map(namespace, level="1"))

    with pytest.raises(KubeError, match=r"v1/configmaps settings.*expected.* 1 s:.*resourceVersion"):
        kube.api.wait(CONFIG_MAPS, "settings", namespace, until=lambda found: found is None, timeout=1)


def test_no_other_configuration_is_looked_at(
    kube: KubeCluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    production = Kubeconfig("https://127.0.0.1:1", kube.api.config.authority, token="x", context="production")
    (tmp_path / ".kube").mkdir()
    inherited = production.write(tmp_path / ".kube" / "config")
    by_default = Path(os.environ["KUBECONFIG"])
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(inherited))

    shown = kube.kubectl("config", "view", "--output=jsonpath={.clusters[*].cluster.server}")
    users = kube.kubectl("auth", "whoami", "--output=jsonpath={.status.userInfo.groups}")

    assert not by_default.exists()
    assert shown == kube.api.config.server
    assert "system:masters" in users or "kubeadm:cluster-admins" in users
    with pytest.raises(KubeError, match=r"config is not in .* only clusters"):
        kube.client(inherited)


def test_kubectl_says_why_it_failed(kube: KubeCluster, namespace: str) -> None:
    config = kube.service_account(namespace, "nobody")

    with pytest.raises(KubeError, match=r"(?s)kubectl get secrets.*nobody.*cannot list"):
        kube.kubectl("get", "secrets", config=config)


def test_a_component_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "kubebox"
    broken.write_text("#!/bin/sh\n[ $1 = etcd ] || exec sleep 60\necho no $1 today\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(local_plane_module, "executable", lambda _: broken)

    why = r"etcd has ended; its log: .*etcd\.log\nno etcd today"
    with closing(LocalPlane(tmp_path)) as plane, pytest.raises(KubeError, match=why):
        plane.start()


def test_logs_stay_after_a_bad_end_and_keys_do_not(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught, KubeCluster("bad", tmp_path / "bad") as cluster:
        cluster.start()
        pids = cluster.pids()
        raise ZeroDivisionError

    assert all_end(pids)
    assert caught.value.__notes__ == [f"Logs of the test cluster bad: {tmp_path / 'bad'}"]
    assert not (tmp_path / "bad" / "data").exists()
    assert all("PRIVATE KEY" not in log.read_text() for log in (tmp_path / "bad").rglob("*.log"))


SESSION = """
import threading
from tests.support.kube import KubeCluster, LocalNode, PODS, SparkOperator
from tests.support.kube.spark_submit import SCHEDULER

with KubeCluster().start() as kube:
    namespace = kube.new_namespace()
    spec = {"schedulerName": SCHEDULER, "containers": [{"name": "a", "image": "b"}]}
    sleep = lambda pod: ["/bin/sleep", "1000"]
    with SparkOperator(kube, namespace).start() as operator, LocalNode(kube, namespace, sleep).start() as node:
        kube.api.create(PODS, {"metadata": {"name": "driver"}, "spec": spec}, namespace)
        kube.api.wait(PODS, "driver", namespace, until=lambda pod: pod["status"]["phase"] == "Running")
        print(*kube.pids(), operator.pid, node.pid("driver"), flush=True)
        threading.Event().wait()
"""


def test_nothing_outlives_its_session(tmp_path: Path) -> None:
    pids, alive_before = ended_session(SESSION, signal.SIGKILL, tmp_path)

    assert len(pids) >= 2
    assert all(alive_before)
    assert all_end(pids)
