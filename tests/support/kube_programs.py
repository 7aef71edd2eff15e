"""The programs of the test cluster, built from pinned Go modules into the user's cache.

`python -m tests.support.kube_programs` (`make setup-kube`) builds the one of the demo; tests need Helm, too. It imports
only the standard library, so that it can run while the virtual environment is being made.

`kube/kubebox/` pins Kubernetes, etcd, Kubeflow's spark-operator and Helm in one module: what they share is compiled
once. Its spark-operator is therefore built with the libraries of our Kubernetes, not with the ones that it pins.

A node that runs pods (`tests/support/node`) needs four more, which only `make e2e` builds: kubebox with the tag `node`,
which has all controllers, kubelet, kube-proxy and kube-scheduler; `kube/spark-operator/`, as it is released;
`kube/coredns/`, and `kube/pause/`.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from tests.support.go import GoProgram, GoUnavailableError, executable, module_folder

_MODULES = Path(__file__).with_name("kube")


def _complete(folder: Path) -> None:
    (folder / "kubectl").symlink_to(KUBEBOX.name)
    crds = folder / "crds"
    crds.mkdir()
    definitions = module_folder(KUBEBOX, SPARK_OPERATOR.module) / "config" / "crd" / "bases"
    for definition in sorted(definitions.glob("*.yaml")):
        # `copyfile` leaves the permissions behind: files in Go's module cache are read-only.
        shutil.copyfile(definition, crds / definition.name)


KUBEBOX = GoProgram(
    name="kubebox",
    source=_MODULES / "kubebox",
    module="k8s.io/kubernetes",
    processor_seconds=540,
    # Without these variables the API server reports version v0.0.0.
    version_variables=("k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"),
    complete=_complete,
)
"""etcd, kube-apiserver, some controllers, kubectl and Kubeflow's spark-operator in one binary.

Beside it are a link `kubectl`, and a folder `crds` with the spark-operator's CustomResourceDefinitions.
"""
HELM = GoProgram(
    name="helm",
    source=_MODULES / "kubebox",
    module="helm.sh/helm/v3",
    package="helm.sh/helm/v3/cmd/helm",
    version_variables=("helm.sh/helm/v3/internal/version.version",),
)
NODE_KUBEBOX = replace(KUBEBOX, tags=("node",), complete=None)
"""etcd, kube-apiserver, kube-controller-manager, kubelet, kube-proxy and kube-scheduler."""
SPARK_OPERATOR = GoProgram(
    name="spark-operator",
    source=_MODULES / "spark-operator",
    module="github.com/kubeflow/spark-operator/v2",
    package="github.com/kubeflow/spark-operator/v2/cmd/operator",
    processor_seconds=260,
    version_variables=("k8s.io/component-base/version.gitVersion",),
)
"""Kubeflow's operator with the libraries that it pins, and with its webhook."""
COREDNS = GoProgram(name="coredns", source=_MODULES / "coredns", module="github.com/coredns/coredns")
PAUSE = GoProgram(name="pause", source=_MODULES / "pause", module="")
"""The first process of a pod's sandbox."""


def spark_operator_chart() -> Path:
    """Return the folder of the pinned spark-operator's own chart."""
    return module_folder(SPARK_OPERATOR, SPARK_OPERATOR.module) / "charts" / "spark-operator-chart"


def spark_operator_crds() -> Path:
    """Return the folder with the CustomResourceDefinitions of the pinned spark-operator."""
    return executable(KUBEBOX).with_name("crds")


def kubectl() -> Path:
    """Return kubectl, which is `KUBEBOX` under another name."""
    return executable(KUBEBOX).with_name("kubectl")


def main(*also: str) -> None:
    """Build the demo's program if the cache lacks it, with `helm` also Helm; exit with 1 and the reason on failure."""
    try:
        for program in (KUBEBOX, *(HELM for name in also if name == HELM.name)):
            executable(program)
    except GoUnavailableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
