"""Helm upgrades, rolls back and uninstalls our operator while records flow; the jobs never notice."""

from __future__ import annotations

from tests.e2e.images import images
from tests.e2e.install import (
    NAMESPACE,
    OPERATOR,
    OPERATOR_NAMESPACE,
    Helm,
    install_operator,
    operator_settings,
)
from tests.e2e.shop import Shop
from tests.support.operator import CHART, STREAMS


def test_jobs_never_notice_an_upgrade(shop: Shop) -> None:
    helm = Helm(shop.cluster)
    release = (OPERATOR, f"--namespace={OPERATOR_NAMESPACE}")
    values = [f"--set={each}" for each in operator_settings(images()["operator"].name)]
    with shop.play("upgrade", "helm upgrade, rollback and uninstall of our operator while records flow"):
        before = shop.objects.written()
        helm.run("upgrade", *release, str(CHART), "--wait", "--timeout=4m", *values, "--set=operator.gather=3s")
        shop.mark("helm upgrade has ended")
        helm.run("rollback", *release, "1", "--wait", "--timeout=4m")
        shop.mark("helm rollback has ended")
        helm.run("uninstall", *release, "--wait", "--timeout=4m")
        shop.mark("helm uninstall has ended")
        assert shop.cluster.api.find(STREAMS, "orders", NAMESPACE) is not None
        for each in shop.applications:
            shop.wait_batch(each)
        install_operator(shop.cluster, images()["operator"].name)
        shop.mark("helm install has ended")
        shop.wait("the operator to serve", shop.objects.leader)
        assert shop.objects.written() == before

        at = shop.stream.add("C")  # it serves again
        shop.wait_in_force("C is added", at, added="C")
        at = shop.stream.remove("C")
        shop.wait_in_force("C is removed, and drains", at)
        shop.wait_drained("C")
