"""Helm upgrades, rolls back and uninstalls our operator while records flow; the jobs never notice."""

from __future__ import annotations

from tests.e2e import large
from tests.e2e.images import ANOTHER, images
from tests.e2e.install import (
    NAMESPACE,
    OPERATOR,
    OPERATOR_NAMESPACE,
    install_operator,
    operator_settings,
)
from tests.e2e.shop import Shop
from tests.support.operator import CHART, STREAMS


def test_jobs_never_notice_an_upgrade(shop: Shop) -> None:
    helm, own, another = shop.cluster.helm, images()["operator"].name, images()[ANOTHER].name
    release = (OPERATOR, f"--namespace={OPERATOR_NAMESPACE}")
    values = [f"--set={setting}" for setting in operator_settings(own)]
    with shop.play("upgrade", "helm upgrade, rollback and uninstall of our operator while records flow"):
        large.create(shop.cluster.api, NAMESPACE)
        shop.wait("the packed document of the large stream", lambda: large.is_rendered(shop.cluster.api, NAMESPACE))
        shop.wait("streams and subscriptions at rest", shop.objects.are_at_rest)
        before = shop.objects.written()
        helm("upgrade", *release, str(CHART), "--wait", "--timeout=4m", *values, "--set=operator.gather=3s")
        shop.mark("helm upgrade has ended")
        helm("rollback", *release, "1", "--wait", "--timeout=4m")
        shop.mark("helm rollback has ended")
        _wait_until_served(shop, own)
        assert shop.objects.written() == before

        helm("uninstall", *release, "--wait", "--timeout=4m")
        shop.mark("helm uninstall has ended")
        assert shop.cluster.api.find(STREAMS, "orders", NAMESPACE) is not None
        for application in shop.applications:
            shop.wait_batch(application)
        large.pack_otherwise(shop.cluster.api, NAMESPACE)
        before = shop.objects.written()
        install_operator(shop.cluster, another)
        shop.mark("helm install of another image has ended")
        _wait_until_served(shop, another)
        assert shop.objects.written() == before

        helm("upgrade", *release, str(CHART), "--wait", "--timeout=4m", *values)
        shop.mark("helm upgrade to the first image has ended")
        _wait_until_served(shop, own)
        assert shop.objects.written() == before
        large.delete(shop.cluster.api, NAMESPACE)

        at = shop.stream.add("C")  # it serves again
        shop.wait_in_force("C is added", at, added="C")
        at = shop.stream.remove("C")
        shop.wait_in_force("C is removed, and drains", at)
        shop.wait_drained("C")


def _wait_until_served(shop: Shop, image: str) -> None:
    """Wait until an operator of an image leads and has reconciled everything.

    It then reconciles another form of the subscription with the largest document; all else was in its queue before.
    """
    api = shop.cluster.api
    shop.wait(f"an operator of {image} to lead", lambda: shop.objects.leaders_image() == image)
    large.change_subscription(api, NAMESPACE)
    shop.wait("the operator to reconcile a changed subscription", lambda: large.is_reconciled(api, NAMESPACE))
