"""Kubeflow's spark-operator, the real controller, as a process beside a test cluster.

Only its `spark-submit` is ours: `spark_submit.py` creates the driver's pod and nothing else. The test then writes the
pod's status (`pods.py`), or a `LocalNode` runs a process for the pod. The webhook does not run, so `driver.configMaps`
and volumes reach the pod only through a pod template.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tests.support.folders import new_folder
from tests.support.go import executable
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.errors import KubeError
from tests.support.kube.spark_submit import FOLDER, RECORDS, parse
from tests.support.kube_programs import KUBEBOX, spark_operator_crds
from tests.support.places import ROOT
from tests.support.servers import Server
from tests.support.supervise import Process, last_lines
from tests.support.waiting import wait_until

APPLICATIONS = "sparkoperator.k8s.io/v1beta2/sparkapplications"

# The rights that the chart gives the service account of drivers (templates/spark/rbac.yaml of the chart, 2.5.2).
DRIVER_RULES = (
    {
        "apiGroups": [""],
        "resources": ["pods", "configmaps", "persistentvolumeclaims", "services"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
    },
)

_STARTED = b'Starting workers\t{"controller": "sparkapplication"'


@dataclass(frozen=True)
class Submission:
    """One call of `spark-submit`.

    Attributes:
        arguments: all of them.
        conf: what `--conf` and `--name` say.
    """

    arguments: tuple[str, ...]
    conf: dict[str, str]

    @property
    def pod(self) -> str:
        """The name of the driver's pod."""
        return self.conf["spark.kubernetes.driver.pod.name"]


class SparkOperator(Server):
    """The controller, for some namespaces of one cluster. Two of them must not watch the same one.

    Attributes:
        folder: its log, and what its `spark-submit` was called with.
    """

    def __init__(self, cluster: KubeCluster, *namespaces: str, arguments: Sequence[str] = ()) -> None:
        """`arguments` are added to `spark-operator controller start`. Nothing runs yet."""
        assert namespaces, "without one it would watch all, other tests' as well"
        self.name = "spark-operator"
        self.folder = new_folder("kube", self.name)
        self._cluster = cluster
        self._namespaces = namespaces
        self._arguments = arguments
        self._process = Process("The spark-operator", self.folder / "spark-operator.log")
        self._begin = 0

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process.running

    @property
    def pid(self) -> int:
        """Its process id. Raises `RuntimeError` when it does not run."""
        return self._process.pid

    def start(self) -> Self:
        """Install its resources, start it, and wait until it reconciles. Raises `KubeError` with its log."""
        if not self.running:
            self._cluster.install_crds(spark_operator_crds())
            self._write_spark_submit()
            log = self._process.log
            self._begin = log.stat().st_size if log.exists() else 0
            self._process.launch(self._command(), self._environment())
        wait_until(self._reconciles, "a reconciling spark-operator", failed=self._check, error=KubeError)
        return self

    def stop(self) -> None:
        """Stop in order."""
        self._process.stop()

    def kill(self) -> None:
        """Kill the operator with -9."""
        self._process.kill()

    def submissions(self, application: str | None = None) -> list[Submission]:
        """Return the calls of `spark-submit` so far, refused ones too; for one application, or for all."""
        records = self.folder / RECORDS
        lines = records.read_text().splitlines() if records.exists() else []
        calls = [Submission(tuple(arguments), parse(arguments)[0]) for arguments in map(json.loads, lines)]
        return [call for call in calls if application in (None, call.conf["spark.app.name"])]

    def _end(self) -> None:
        self.kill()
        self._remove_pod_templates()

    def _remove_pod_templates(self) -> None:
        """Remove the pod templates that the operator left in a fixed folder of the machine."""
        for submission in self.submissions():
            for role in ("driver", "executor"):
                file = submission.conf.get(f"spark.kubernetes.{role}.podTemplateFile")
                if file is not None:
                    shutil.rmtree(Path(file).parent, ignore_errors=True)

    def _called(self) -> str:
        return "the spark-operator"

    def _command(self) -> list[str]:
        command = [str(executable(KUBEBOX)), "spark-operator", "controller", "start", "--zap-encoder=console"]
        command += ["--health-probe-bind-address=0", f"--namespaces={','.join(self._namespaces)}"]
        return [*command, *self._arguments]

    def _environment(self) -> dict[str, str]:
        server = urlsplit(self._cluster.api.config.server)
        return self._cluster.environment() | {
            # It only passes these on to spark-submit, as `--master`.
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
            "SPARK_HOME": str(self.folder),
            FOLDER: str(self.folder),
            "PYTHONPATH": str(ROOT),
        }

    def _write_spark_submit(self) -> None:
        script = self.folder / "bin" / "spark-submit"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.support.kube.spark_submit "$@"\n')
        script.chmod(0o755)

    def _reconciles(self) -> bool:
        """Its readiness probe says yes too early: before it has read what there is."""
        with self._process.log.open("rb") as log:
            log.seek(self._begin)
            return _STARTED in log.read()

    def _check(self) -> None:
        if not self.running:
            log = self._process.log
            raise KubeError(f"The spark-operator has ended; its log: {log}\n{last_lines(log)}")
