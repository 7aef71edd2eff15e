"""Fixtures of the tests on Kubernetes: the cluster, started when first asked for, and what a test has in it.

Tests that ask for them are marked `kube` by that alone. As with brokers, the report of a failed test names
the folders of what it ran against, and the logs in them stay.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fixtures import kept_open
from tests.support.kube import KubeCluster, SparkOperator


@pytest.fixture(scope="session")
def kube(pytestconfig: pytest.Config) -> Iterator[KubeCluster]:
    """Yield a cluster that all tests share: use a namespace of your own, and leave the API server running.

    The tests never reach another cluster. Neither this process nor its children read the user's own configuration, and
    `KubeCluster` refuses a server that it did not start.
    """
    cluster = KubeCluster()
    with pytest.MonkeyPatch.context() as environment, kept_open(pytestconfig, pytestconfig.stash, [cluster]):
        environment.setenv("KUBECONFIG", str(cluster.folder / "nothing-by-default"))
        environment.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield cluster.start()


@pytest.fixture
def namespace(kube: KubeCluster) -> Iterator[str]:
    """Return a namespace of the test's own; an API server that an earlier test stopped runs again."""
    name = kube.start().new_namespace()
    yield name
    kube.start().delete_namespace(name)


@pytest.fixture
def spark_operator(request: pytest.FixtureRequest, kube: KubeCluster, namespace: str) -> Iterator[SparkOperator]:
    """Kubeflow's spark-operator for the test's namespace, which the test may stop and kill."""
    operator = SparkOperator(kube, namespace)
    with kept_open(request.config, request.node.stash, [operator]):
        yield operator.start()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they ask for."""
    for item in items:
        if "kube" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kube)
