"""The operator as a process next to a test cluster, with exactly the rights that its chart gives it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from tests.support.folders import new_folder
from tests.support.go import executable
from tests.support.kube import ApiError, KubeCluster, KubeError
from tests.support.kube_programs import HELM
from tests.support.places import ROOT
from tests.support.servers import Server
from tests.support.supervise import Process
from tests.support.waiting import wait_until

CHART = ROOT / "charts" / "kafkastream-operator"
CRD_FOLDER = CHART / "definitions"
STREAMS = "kafkastream.dev/v1alpha1/kafkastreams"
SUBSCRIPTIONS = "kafkastream.dev/v1alpha1/kafkastreamsubscriptions"
CONFIG_MAPS = "v1/configmaps"
_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"
_RIGHTS = {
    "ServiceAccount": "v1/serviceaccounts",
    "Lease": "coordination.k8s.io/v1/leases",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/roles",
    "RoleBinding": f"{_RBAC}/rolebindings",
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
}
"""The kinds of the chart that say what the operator may do, and their resources."""


def rendered(release: str, namespace: str, *settings: str) -> list[dict[str, Any]]:
    """Return the objects of the chart as Helm renders them.

    Args:
        settings: values as for `helm --set`.

    Raises:
        ValueError: Helm refuses the values; the text is its output.
    """
    command = [
        str(executable(HELM)),
        "template",
        release,
        str(CHART),
        "--namespace",
        namespace,
        "--kube-version",
        "1.37.1",
    ]
    command += [f"--set={each}" for each in settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


class OperatorProcess(Server):
    """The operator for one namespace of a test cluster, or with "" for all; then no other operator may run there.

    Attributes:
        release: the name of its release of the chart, and so of its account and its Lease.
        arguments: its flags, besides `--kubeconfig` and `--namespace`.
    """

    def __init__(
        self,
        cluster: KubeCluster,
        namespace: str,
        arguments: Sequence[str] = (),
        through: Callable[[Path], Path] = lambda kubeconfig: kubeconfig,
        *,
        may_restart: bool = False,
        replica_of: OperatorProcess | None = None,
        also: Sequence[str] = (),
    ) -> None:
        """Prepare the operator, without starting it.

        Args:
            through: turns a kubeconfig into one that reaches the API server another way, such as through a proxy.
            may_restart: whether it has the right that restarts of Apache's applications need.
            replica_of: an operator whose release this one belongs to.
            also: more namespaces that it serves.
        """
        self.name = "operator"
        self.folder = new_folder("kube", self.name)
        self.release: str = replica_of.release if replica_of else f"kafkastream-operator-{self.folder.name}"
        self._replica_of, self._rights = replica_of, list[dict[str, Any]]()
        self._settings = [f"apacheRestart.namespaces={{{namespace}}}"] if may_restart else []
        self._settings += [f"namespaces={{{','.join([namespace, *also])}}}"] if namespace else ["clusterWide=true"]
        self._namespaces = [namespace, *also] if namespace else []
        self._cluster, self._namespace, self.arguments, self._through = cluster, namespace, arguments, through
        self._process = Process("The operator", self.folder / "operator.log")
        self._kubeconfig: Path | None = None

    def start(self) -> Self:
        """Start the process. It serves as soon as it has listed everything."""
        if self._kubeconfig is None:
            home = self._namespace or "default"
            if self._replica_of is None:
                self._cluster.install_crds(CRD_FOLDER)
                objects = rendered(self.release, home, *self._settings)
                self._rights = [each for each in objects if each["kind"] in _RIGHTS]
                for each in self._rights:
                    self._cluster.api.create(_RIGHTS[each["kind"]], each)
            own = self._cluster.kubeconfig_of(home, self.release)
            self._kubeconfig = self._through(own)
        command = [sys.executable, "-m", "kafkastream_operator", "--kubeconfig", str(self._kubeconfig)]
        command += [*(f"--namespace={each}" for each in self._namespaces), *self.arguments]
        environment = self._cluster.environment(self._kubeconfig)
        environment["PYTHONPATH"] = f"{ROOT / 'operator'}:{ROOT / 'spark_app'}"
        self._process.launch(command, environment)
        return self

    def grant(self, namespace: str) -> None:
        """Make its Role in a namespace once more, as `helm upgrade` does where the namespace was made again."""
        for each in self._rights:
            if each["metadata"].get("namespace") == namespace:
                self._cluster.api.create(_RIGHTS[each["kind"]], each)

    def take_cluster_rights(self) -> None:
        """Take away what its account may do in the whole cluster, as where a user may create Roles only."""
        for each in self._rights:
            if each["kind"] == "ClusterRoleBinding":
                self._cluster.api.delete(_RIGHTS[each["kind"]], each["metadata"]["name"])
        account = self._cluster.client(self.kubeconfig)

        def is_refused() -> bool:
            try:
                account.list("v1/namespaces")
            except ApiError as error:
                return error.status == 403
            return False

        wait_until(is_refused, "the refusal of a listing of namespaces")

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the operator."""
        assert self._kubeconfig is not None
        return self._kubeconfig

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process.running

    def stop(self) -> None:
        """Stop the process in order."""
        self._process.stop()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()

    def pause(self) -> None:
        """Suspend the process (SIGSTOP)."""
        self._process.pause()

    def resume(self) -> None:
        """Let the process go on (SIGCONT)."""
        self._process.resume()

    def log(self) -> str:
        """Return the log so far."""
        return self._process.log.read_text()

    @property
    def lease(self) -> str:
        """The Lease of its release, for `--lease`."""
        return f"{self._namespace or 'default'}/{self.release}"

    def _end(self) -> None:
        self.kill()
        for each in self._rights:
            if "namespace" not in each["metadata"]:
                with contextlib.suppress(KubeError):  # the test may have stopped the API server
                    self._cluster.api.delete(_RIGHTS[each["kind"]], each["metadata"]["name"])

    def _called(self) -> str:
        return "the operator"
