"""The programs of the test cluster, built from pinned Go modules into the user's cache.

`python -m tests.support.kube_programs` (`make setup-kube`) builds those of the demo; tests need Helm, too. It imports
only the standard library, so that it can run while the virtual environment is being made.

`kube/kubebox/` pins Kubernetes and etcd; `kube/spark-operator/` pins Kubeflow's operator, and `kube/helm/` pins Helm.
The last two have no source of their own.

A node that runs pods (`tests/support/node`) needs three more, which only `make e2e` builds: kubebox with the tag
`node`, which has kubelet, kube-proxy and kube-scheduler, too; `kube/coredns/`, and `kube/pause/`.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from tests.support.go import GoProgram, GoUnavailableError, executable, module_folder

_MODULES = Path(__file__).with_name("kube")


def _link_kubectl(folder: Path) -> None:
    (folder / "kubectl").symlink_to(KUBEBOX.name)


def _copy_crds(folder: Path) -> None:
    crds = folder / "crds"
    crds.mkdir()
    for definition in sorted((module_folder(SPARK_OPERATOR) / "config" / "crd" / "bases").glob("*.yaml")):
        # `copyfile` leaves the permissions behind: files in Go's module cache are read-only.
        shutil.copyfile(definition, crds / definition.name)


KUBEBOX = GoProgram(
    name="kubebox",
    source=_MODULES / "kubebox",
    module="k8s.io/kubernetes",
    # Without these variables the API server reports version v0.0.0.
    version_variables=("k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"),
    complete=_link_kubectl,
)
"""etcd, kube-apiserver, kube-controller-manager and kubectl in one binary, with a link `kubectl` beside it."""
SPARK_OPERATOR = GoProgram(
    name="spark-operator",
    source=_MODULES / "spark-operator",
    module="github.com/kubeflow/spark-operator/v2",
    package="github.com/kubeflow/spark-operator/v2/cmd/operator",
    version_variables=("k8s.io/component-base/version.gitVersion",),
    complete=_copy_crds,
)
"""Kubeflow's operator, with a folder `crds` of its CustomResourceDefinitions beside it."""
HELM = GoProgram(
    name="helm",
    source=_MODULES / "helm",
    module="helm.sh/helm/v3",
    package="helm.sh/helm/v3/cmd/helm",
    version_variables=("helm.sh/helm/v3/internal/version.version",),
)
NODE_KUBEBOX = replace(KUBEBOX, tags=("node",))
"""`KUBEBOX` with kubelet, kube-proxy and kube-scheduler, too."""
COREDNS = GoProgram(name="coredns", source=_MODULES / "coredns", module="github.com/coredns/coredns")
PAUSE = GoProgram(name="pause", source=_MODULES / "pause", module="")
"""The first process of a pod's sandbox."""


def spark_operator_chart() -> Path:
    """Return the folder of the pinned spark-operator's own chart."""
    return module_folder(SPARK_OPERATOR) / "charts" / "spark-operator-chart"


def spark_operator_crds() -> Path:
    """Return the folder with the CustomResourceDefinitions of the pinned spark-operator."""
    return executable(SPARK_OPERATOR).with_name("crds")


def kubectl() -> Path:
    """Return kubectl, which is `KUBEBOX` under another name."""
    return executable(KUBEBOX).with_name("kubectl")


def main(*also: str) -> None:
    """Build the demo's programs that the cache lacks, with `helm` also Helm; exit with 1 and the reason on failure."""
    try:
        for program in (KUBEBOX, SPARK_OPERATOR, *(HELM for name in also if name == HELM.name)):
            executable(program)
    except GoUnavailableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
