"""An operator of several namespaces, one of which is deleted and made again."""

from __future__ import annotations

import re

import pytest

from tests.integration.operator.stage import Stage, cluster
from tests.support.fixtures import kept_open
from tests.support.kube import KubeCluster
from tests.support.operator import OperatorProcess

pytestmark = pytest.mark.deep("namespaces and rights that vary")

NAMESPACES = "v1/namespaces"


def test_a_deleted_namespace_stops_no_other_and_may_return(
    request: pytest.FixtureRequest, kube: KubeCluster, stage: Stage
) -> None:
    other = Stage(kube, kube.new_namespace("other"))
    operator = OperatorProcess(kube, stage.namespace, also=[other.namespace])
    missing = f"namespace {other.namespace} is not served"
    with kept_open(request.config, request.node.stash, [operator]):
        operator.start()
        for tenant in (stage, other):
            tenant.stream("orders", cluster("east"))
            tenant.subscription()
            tenant.wait_document({"east/orders": "Active"})
        kube.delete_namespace(other.namespace)
        kube.api.wait(NAMESPACES, other.namespace, until=lambda old_namespace: old_namespace is None)
        stage.stream("orders", cluster("east"), cluster("west"))
        stage.wait_document({"east/orders": "Active", "west/orders": "Active"})

        operator.kill()
        before = len(operator.log())
        operator.start()
        stage.stream("orders", cluster("east"), cluster("west"), cluster("north"))
        stage.wait_document({"east/orders": "Active", "west/orders": "Active", "north/orders": "Active"})
        assert operator.log()[before:].count(missing) == 1

        kube.api.create(NAMESPACES, {"metadata": {"name": other.namespace}})
        other.stream("orders", cluster("south"))
        other.subscription()
        operator.grant(other.namespace)
        other.wait_document({"south/orders": "Active"})
        assert operator.running
        kube.delete_namespace(other.namespace)


def test_an_operator_with_only_a_role_asks_for_nothing_else(
    request: pytest.FixtureRequest, kube: KubeCluster, stage: Stage
) -> None:
    operator = OperatorProcess(kube, stage.namespace)
    with kept_open(request.config, request.node.stash, [operator]):
        operator.start()
        operator.take_cluster_rights()
        operator.kill()
        before = len(operator.log())
        operator.start()
        stage.stream("orders", cluster("east"))
        stage.subscription()
        stage.wait_document({"east/orders": "Active"})
        stage.stream("orders", cluster("west"))
        stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
        log = operator.log()[before:]
        assert re.search("may not list customresourcedefinitions.*namespaces", log)
        assert "Forbidden" not in log  # the name of kopf's error in its retries
