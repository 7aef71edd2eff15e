"""The stand-in for a kubelet: what a pod's life is to the API server, a process is on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.kube.test_cluster import config_map
from tests.support.kube import PODS, Json, KubeCluster, LocalNode
from tests.support.kube.registration import LEASES, NODES
from tests.support.kube.spark_submit import SCHEDULER
from tests.support.sessions import all_end

pytestmark = pytest.mark.deep("the tests' own node")


def pod(namespace: str, name: str = "driver", **spec: Any) -> Json:
    container = {"name": "main", "image": "none", "env": [{"name": "GREETING", "value": "hello"}]}
    spec = {"schedulerName": SCHEDULER, "restartPolicy": "Never", "containers": [container], **spec}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def phase(*phases: str) -> Callable[[Json | None], bool]:
    return lambda found: found is not None and found["status"].get("phase") in phases


def gone(resource: Json | None) -> bool:
    return resource is None


def python(script: str) -> Callable[[Json], list[str]]:
    return lambda pod: [sys.executable, "-c", script]


@pytest.mark.parametrize(("code", "expected"), [(0, "Succeeded"), (3, "Failed")])
def test_a_process_that_ends_ends_its_pod(kube: KubeCluster, namespace: str, code: int, expected: str) -> None:
    script = f"import os, sys; print(os.environ['GREETING']); sys.exit({code})"
    with LocalNode(kube, namespace, python(script)).start() as node:
        kube.api.create(PODS, pod(namespace))

        ended = kube.api.wait(PODS, "driver", namespace, until=phase("Succeeded", "Failed"))

        assert ended is not None
        (container,) = ended["status"]["containerStatuses"]
        assert (ended["status"]["phase"], container["state"]["terminated"]["exitCode"]) == (expected, code)
        assert node.output("driver") == "hello\n"


STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""


def test_a_deleted_pod_is_there_until_its_process_has_ended(kube: KubeCluster, namespace: str) -> None:
    with LocalNode(kube, namespace, python(STUBBORN)).start() as node:
        kube.api.create(PODS, pod(namespace, terminationGracePeriodSeconds=2))
        kube.api.wait(PODS, "driver", namespace, until=phase("Running"))
        node.wait_for_output("driver", "up")
        pid = node.pid("driver")

        kube.api.delete(PODS, "driver", namespace)
        being_deleted = kube.api.get(PODS, "driver", namespace)["metadata"]
        kube.api.wait(PODS, "driver", namespace, until=gone)

        assert "deletionTimestamp" in being_deleted
        assert all_end([pid], 0)


def test_a_pod_deleted_by_force_loses_its_process(kube: KubeCluster, namespace: str) -> None:
    with LocalNode(kube, namespace, lambda pod: ["/bin/sleep", "1000"]).start() as node:
        kube.api.create(PODS, pod(namespace))
        kube.api.wait(PODS, "driver", namespace, until=phase("Running"))
        pid = node.pid("driver")

        kube.api.delete(PODS, "driver", namespace, gracePeriodSeconds=0)

        assert all_end([pid])


WHEN_THE_FILE_EXISTS = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
os._exit(4)
"""


def test_a_process_ends_while_the_api_server_is_away(kube: KubeCluster, namespace: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with LocalNode(kube, namespace, lambda pod: [sys.executable, "-c", WHEN_THE_FILE_EXISTS, str(go)]).start() as node:
        kube.api.create(PODS, pod(namespace))
        kube.api.wait(PODS, "driver", namespace, until=phase("Running"))
        pid = node.pid("driver")

        kube.stop_api_server()
        lives_on = not all_end([pid], 0)
        go.touch()
        ends = all_end([pid])
        kube.start_api_server()

        ended = kube.api.wait(PODS, "driver", namespace, until=phase("Failed"))
        assert ended is not None
        assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
        assert lives_on
        assert ends


def test_a_pod_nobody_has_a_command_for_is_left_alone(kube: KubeCluster, namespace: str) -> None:
    with LocalNode(kube, namespace, lambda pod: ["/bin/true"] if pod["metadata"]["name"] == "mine" else None).start():
        kube.api.create(PODS, pod(namespace, "other"))
        kube.api.create(PODS, pod(namespace, "mine"))

        kube.api.wait(PODS, "mine", namespace, until=phase("Succeeded"))

        other = kube.api.get(PODS, "other", namespace)
        assert other["status"]["phase"] == "Pending"
        assert "nodeName" not in other["spec"]


def test_it_is_a_node_that_lives_as_long_as_it_runs(kube: KubeCluster, namespace: str) -> None:
    with LocalNode(kube, namespace, lambda pod: None).start() as node:
        lease = kube.api.wait(
            LEASES, node.name, "kube-node-lease", until=lambda found: found and "renewTime" in found["spec"]
        )
        entered = kube.api.find(NODES, node.name)

    assert lease is not None
    assert entered is not None
    assert kube.api.find(NODES, node.name) is None


def test_what_it_leaves_of_a_failure_holds_no_secret(kube: KubeCluster, namespace: str) -> None:
    kube.api.create("v1/secrets", {"metadata": {"name": "east"}, "stringData": {"password": "hidden"}}, namespace)
    volumes = [{"name": "east", "secret": {"secretName": "east"}}]
    node = LocalNode(
        kube, namespace, python("import os; print(os.listdir(os.environ['POD_FOLDER'] + '/volumes/east'))")
    )
    with node.start():
        kube.api.create(PODS, pod(namespace, volumes=volumes))
        kube.api.wait(PODS, "driver", namespace, until=phase("Succeeded"))
        node.close(keep_logs=True)
        left = {path.name: path.read_text() for path in node.folder.rglob("*")}

    assert list(left) == ["driver-1.log"]
    assert "password" in left["driver-1.log"]


SHOW = """
import os, pathlib, time
folder = pathlib.Path(os.environ["POD_FOLDER"])
print((folder / "serviceaccount" / "namespace").read_text(), flush=True)
shown = None
while True:
    found = (folder / "volumes" / "settings" / "level").read_text()
    if found != shown:
        shown = found
        print("level", shown, flush=True)
    time.sleep(0.02)
"""


def test_a_mounted_config_map_is_waited_for_and_kept_up_to_date(kube: KubeCluster, namespace: str) -> None:
    volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
    with LocalNode(kube, namespace, python(SHOW)).start() as node:
        kube.api.create(PODS, pod(namespace, volumes=volumes))
        kube.api.wait(PODS, "driver", namespace, until=lambda found: found and "nodeName" in found["spec"])
        waited = node.output("driver") == ""
        kube.api.create("v1/configmaps", config_map(namespace, level="1"))
        node.wait_for_output("driver", f"{namespace}\nlevel 1\n")

        kube.api.patch("v1/configmaps", "settings", namespace, {"data": {"level": "2"}})
        # As with a kubelet: at once only when the pod changes, too.
        kube.api.patch(PODS, "driver", namespace, {"metadata": {"annotations": {"revision": "2"}}})

        node.wait_for_output("driver", "level 2\n")
        assert waited


FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
print("child", child.pid, flush=True)
time.sleep(300)
"""


def test_a_pod_that_is_killed_loses_all_its_processes_at_once(kube: KubeCluster, namespace: str) -> None:
    with LocalNode(kube, namespace, python(FAMILY)).start() as node:
        kube.api.create(PODS, pod(namespace))
        kube.api.wait(PODS, "driver", namespace, until=phase("Running"))
        node.wait_for_output("driver", "child")
        pids = [node.pid("driver"), int(node.output("driver").split()[-1])]

        assert node.kill("driver") == 2

        assert all_end(pids, 0)
        ended = kube.api.wait(PODS, "driver", namespace, until=phase("Failed"))
        assert ended is not None
        assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
        assert [started_pod["metadata"]["uid"] for started_pod in node.started] == [ended["metadata"]["uid"]]
