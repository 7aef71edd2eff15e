"""The accounts on the running cluster may do what the pages say, and no more; the namespaces refuse privileged pods."""

from __future__ import annotations

import pytest

from tests.e2e.install import DRIVER_ACCOUNT, NAMESPACE, OPERATOR, OPERATOR_NAMESPACE
from tests.e2e.shop import Shop
from tests.support.kube import PODS, ApiError

_OPERATOR = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR}"
_DRIVER = f"system:serviceaccount:{NAMESPACE}:{DRIVER_ACCOUNT}"
_STREAMS = "kafkastreams.kafkastream.dev"
_APPLICATIONS = "sparkapplications.sparkoperator.k8s.io"


@pytest.mark.parametrize(
    ("account", "verb", "resource", "namespace", "allowed"),
    [
        (_OPERATOR, "list", _STREAMS, NAMESPACE, "yes"),
        (_OPERATOR, "patch", _APPLICATIONS, NAMESPACE, "yes"),
        (_OPERATOR, "patch", "pods", NAMESPACE, "yes"),
        (_OPERATOR, "get", "secrets", NAMESPACE, "no"),
        (_OPERATOR, "list", "secrets", "kube-system", "no"),
        (_OPERATOR, "create", "pods", NAMESPACE, "no"),
        (_OPERATOR, "create", "pods/exec", NAMESPACE, "no"),
        (_OPERATOR, "create", "jobs.batch", NAMESPACE, "no"),
        (_OPERATOR, "delete", "pods", NAMESPACE, "no"),
        (_OPERATOR, "create", "rolebindings.rbac.authorization.k8s.io", NAMESPACE, "no"),
        (_OPERATOR, "escalate", "roles.rbac.authorization.k8s.io", NAMESPACE, "no"),
        (_OPERATOR, "impersonate", "serviceaccounts", NAMESPACE, "no"),
        (_OPERATOR, "list", _STREAMS, "kube-system", "no"),
        (_OPERATOR, "update", "configmaps", "kube-system", "no"),
        (_OPERATOR, "create", "leases.coordination.k8s.io", OPERATOR_NAMESPACE, "no"),
        (_DRIVER, "patch", "pods", NAMESPACE, "yes"),
        (_DRIVER, "get", "secrets", NAMESPACE, "no"),
        (_DRIVER, "patch", _STREAMS, NAMESPACE, "no"),
        (_DRIVER, "patch", _APPLICATIONS, NAMESPACE, "no"),
        (_DRIVER, "patch", "pods", OPERATOR_NAMESPACE, "no"),
    ],
)
def test_an_account_can_do_only_its_work(
    shop: Shop, account: str, verb: str, resource: str, namespace: str, *, allowed: str
) -> None:
    assert shop.objects.can_i(account, verb, resource, namespace) == allowed


def test_the_operator_may_not_change_a_drivers_image(shop: Shop) -> None:
    shop.start_applications()
    pod = shop.objects.pods(shop.applications[0], "driver")[0]
    containers = shop.cluster.api.get(PODS, pod, NAMESPACE)["spec"]["containers"]
    own = shop.cluster.client(shop.cluster.kubeconfig_of(OPERATOR_NAMESPACE, OPERATOR))
    image = {"spec": {"containers": [{**container, "image": "another"} for container in containers]}}

    with pytest.raises(ApiError, match=r"may change only.*kafkastream\.dev/refresh"):
        own.patch(PODS, pod, NAMESPACE, image)


def test_the_namespace_refuses_a_pod_that_may_be_root(shop: Shop) -> None:
    pod = {
        "metadata": {"name": "root", "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "one", "image": "one"}]},
    }

    with pytest.raises(ApiError, match="violates PodSecurity"):
        shop.cluster.api.create(PODS, pod)
