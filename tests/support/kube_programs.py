"""The programs of the test cluster, built from pinned Go modules into the user's cache.

`python -m tests.support.kube_programs` (`make setup-kube`) builds them. It imports only the standard library, so that
it can run while the virtual environment is being made.

`kube/kubebox/` pins Kubernetes and etcd; `kube/spark-operator/` pins Kubeflow's operator, and `kube/helm/` pins Helm.
The last two have no source of their own.

A node that runs pods (`tests/support/node`) needs three more, which only `make e2e` builds: kubebox with the tag
`node`, which has kubelet, kube-proxy and kube-scheduler, too; `kube/coredns/`, and `kube/pause/`.
"""

from __future__ import annotations

import functools
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from tests.support.go import GoProgram, GoUnavailableError, built, module_folder

_MODULES = Path(__file__).with_name("kube")

KUBEBOX = GoProgram(
    name="kubebox",
    source=_MODULES / "kubebox",
    module="k8s.io/kubernetes",
    # Without these variables the API server reports version v0.0.0.
    version_variables=("k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"),
)
SPARK_OPERATOR = GoProgram(
    name="spark-operator",
    source=_MODULES / "spark-operator",
    module="github.com/kubeflow/spark-operator/v2",
    package="github.com/kubeflow/spark-operator/v2/cmd/operator",
    version_variables=("k8s.io/component-base/version.gitVersion",),
)
HELM = GoProgram(
    name="helm",
    source=_MODULES / "helm",
    module="helm.sh/helm/v3",
    package="helm.sh/helm/v3/cmd/helm",
    version_variables=("helm.sh/helm/v3/internal/version.version",),
)

NODE_KUBEBOX = replace(KUBEBOX, tags=("node",))
COREDNS = GoProgram(name="coredns", source=_MODULES / "coredns", module="github.com/coredns/coredns")
PAUSE = GoProgram(name="pause", source=_MODULES / "pause", module="")


@functools.cache
def kubebox() -> Path:
    """Return the binary with etcd, kube-apiserver, kube-controller-manager and kubectl; build it the first time.

    A link `kubectl` stands beside it.

    Raises:
        GoUnavailableError: Go is missing, too old, or failed.
    """
    return built(KUBEBOX, _link_kubectl) / KUBEBOX.name


@functools.cache
def spark_operator() -> Path:
    """Return the binary of Kubeflow's spark-operator; build it the first time.

    A folder `crds` with its CustomResourceDefinitions stands beside it.

    Raises:
        GoUnavailableError: Go is missing, too old, or failed.
    """
    return built(SPARK_OPERATOR, _copy_crds) / SPARK_OPERATOR.name


@functools.cache
def helm() -> Path:
    """Return the binary of Helm; build it the first time.

    Raises:
        GoUnavailableError: Go is missing, too old, or failed.
    """
    return built(HELM) / HELM.name


@functools.cache
def node_kubebox() -> Path:
    """Return the binary that has kubelet, kube-proxy and kube-scheduler, too; build it the first time.

    Raises:
        GoUnavailableError: Go is missing, too old, or failed.
    """
    return built(NODE_KUBEBOX) / NODE_KUBEBOX.name


@functools.cache
def coredns() -> Path:
    """Return the binary of CoreDNS; build it the first time.

    Raises:
        GoUnavailableError: Go is missing, too old, or failed.
    """
    return built(COREDNS) / COREDNS.name


@functools.cache
def pause() -> Path:
    """Return the first process of a pod's sandbox; build it the first time.

    Raises:
        GoUnavailableError: Go is missing, too old, or failed.
    """
    return built(PAUSE) / PAUSE.name


def spark_operator_chart() -> Path:
    """Return the folder of the pinned spark-operator's own chart."""
    return module_folder(SPARK_OPERATOR) / "charts" / "spark-operator-chart"


def spark_operator_crds() -> Path:
    """Return the folder with the CustomResourceDefinitions of the pinned spark-operator."""
    return spark_operator().with_name("crds")


def _link_kubectl(folder: Path) -> None:
    (folder / "kubectl").symlink_to(KUBEBOX.name)


def _copy_crds(folder: Path) -> None:
    crds = folder / "crds"
    crds.mkdir()
    for definition in sorted((module_folder(SPARK_OPERATOR) / "config" / "crd" / "bases").glob("*.yaml")):
        # `copyfile` leaves the permissions behind: files in Go's module cache are read-only.
        shutil.copyfile(definition, crds / definition.name)


def main() -> int:
    """Build the programs that the cache lacks; return the exit code."""
    try:
        kubebox()
        spark_operator()
        helm()
    except GoUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
