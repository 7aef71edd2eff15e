from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.operator.stage import Stage
from tests.support.fixtures import kept_open
from tests.support.kube import KubeCluster
from tests.support.operator import OperatorProcess
from tests.support.prometheus import PromtoolUnavailableError, promtool, run_promtool


@pytest.fixture
def stage(kube: KubeCluster, namespace: str) -> Stage:
    return Stage(kube, namespace)


@pytest.fixture
def operator(request: pytest.FixtureRequest, kube: KubeCluster, namespace: str) -> Iterator[OperatorProcess]:
    """Start an operator with short time limits for the test's namespace. The parameter adds flags."""
    quick = ["--confirm", "4s", "--confirm-live", "3s", "--between-restarts", "3s", "--gather", "100ms"]
    made = OperatorProcess(kube, namespace, [*quick, *getattr(request, "param", [])])
    with kept_open(request.config, request.node.stash, [made]):
        yield made.start()


@pytest.fixture(name="promtool", scope="session")
def _promtool() -> Callable[..., None]:
    """Return the function that runs promtool, or skip with the reason why there is none."""
    try:
        promtool()
    except PromtoolUnavailableError as error:
        pytest.skip(str(error))
    return run_promtool
