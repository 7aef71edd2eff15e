"""Credentials come from a mounted Secret, are rotated without a restart, and go to no server that is not listed."""

from __future__ import annotations

import secrets
from pathlib import Path

from tests.e2e.install import NAMESPACE
from tests.e2e.shop import SECRET, USER, Shop
from tests.support.kube import PODS
from tests.support.node.pod_node import PodNode
from tests.support.operator import SUBSCRIPTIONS
from tests.support.resources import condition


def test_a_rotated_password_needs_no_restart(shop: Shop, node: PodNode) -> None:
    with shop.play("secret-rotated", "The password of cluster B is rotated on its broker and in the Secret", reads="B"):
        broker = shop.brokers["B"]
        password = secrets.token_hex(16)
        homes = shop.producers.pause()  # the broker is restarted below
        broker.set_password(USER, password)
        shop.write_secret()
        shop.mark("the password of B is another one")
        shop.wait("all pods to have the new password", lambda: _passwords(shop, node) == {password})
        broker.restart()  # every client has to log in again
        shop.mark("the broker of B was restarted")
        shop.producers.resume(homes)
        for application in shop.applications:
            shop.wait_batch(application)
    assert [result.restarts for result in shop.story.results] == [0, 0]


def test_a_server_that_is_not_listed_holds_the_change(shop: Shop) -> None:
    with shop.play("server-not-listed", "The stream gives cluster B a server that no binding lists", reads="B"):
        listed = shop.stream.servers["B"]
        shop.stream.servers["B"] = f"{listed},10.200.0.1:1"
        shop.stream.commit_again("Add a server of cluster B that is not listed")
        for application in shop.applications:
            shop.wait(
                f"{application.name} to hold the change",
                lambda shop_app=application: (
                    condition(  # type: ignore[misc]
                        shop.cluster.api.get(SUBSCRIPTIONS, shop_app.name, NAMESPACE), "StreamsResolved"
                    ).get("reason")
                    == "ServerNotAllowed"
                ),
            )
            shop.wait_batch(application)
        shop.mark("both subscriptions hold the change")
        shop.stream.servers["B"] = listed
        shop.stream.commit_again("Take the server out again")
    assert [result.restarts for result in shop.story.results] == [0, 0]


def _passwords(shop: Shop, node: PodNode) -> set[str]:
    """Return the passwords that the mounted Secret has in the pods of both applications."""
    uids = [pod["metadata"]["uid"] for pod in shop.cluster.api.list(PODS, NAMESPACE)]
    folders = [node.data / "kubelet" / "pods" / uid / "volumes" / "kubernetes.io~secret" for uid in uids]
    files = [file for folder in folders for file in Path(folder).glob(f"{SECRET}-volume/sasl.password")]
    return {file.read_text() for file in files}
