"""The programs of the test cluster, built from the pinned modules beside this file into the user's cache.

`kubebox/` pins Kubernetes and etcd; `spark-operator/` pins Kubeflow's operator and has no source of its own.
To run pods one day, build kubebox with `tags=("node",)`: kubelet, kube-proxy and kube-scheduler come along.
"""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

from tests.support.go import GoProgram, built, module_folder

_HERE = Path(__file__).parent

KUBEBOX = GoProgram(
    name="kubebox",
    source=_HERE / "kubebox",
    module="k8s.io/kubernetes",
    # Without them a client sees v0.0.0.
    version_variables=("k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"),
)
SPARK_OPERATOR = GoProgram(
    name="spark-operator",
    source=_HERE / "spark-operator",
    module="github.com/kubeflow/spark-operator/v2",
    package="github.com/kubeflow/spark-operator/v2/cmd/operator",
    version_variables=("k8s.io/component-base/version.gitVersion",),
)


@functools.cache
def kubebox() -> Path:
    """etcd, kube-apiserver, kube-controller-manager and kubectl; beside it `kubectl`, a link to it.

    Built the first time. Raises `GoUnavailableError`.
    """
    return built(KUBEBOX, _link_kubectl) / KUBEBOX.name


@functools.cache
def spark_operator() -> Path:
    """Kubeflow's spark-operator; beside it `crds`, its CustomResourceDefinitions.

    Built the first time. Raises `GoUnavailableError`.
    """
    return built(SPARK_OPERATOR, _copy_crds) / SPARK_OPERATOR.name


def spark_operator_crds() -> Path:
    """The folder with the CustomResourceDefinitions of that version."""
    return spark_operator().with_name("crds")


def _link_kubectl(folder: Path) -> None:
    (folder / "kubectl").symlink_to(KUBEBOX.name)


def _copy_crds(folder: Path) -> None:
    crds = folder / "crds"
    crds.mkdir()
    for definition in sorted((module_folder(SPARK_OPERATOR) / "config" / "crd" / "bases").glob("*.yaml")):
        # Not its permissions: what is in Go's module cache cannot be written.
        shutil.copyfile(definition, crds / definition.name)
