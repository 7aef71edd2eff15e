"""The cluster with a node that all end-to-end tests share."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.images import images
from tests.e2e.install import install_operator, install_spark_operator
from tests.e2e.say import say
from tests.e2e.shop import USER, Shop
from tests.support.fixtures import kept_open
from tests.support.kafka import KafkaCluster, start_all
from tests.support.kube import KubeCluster
from tests.support.node.box import ADDRESS, inside
from tests.support.node.pause_image import write_pause_image
from tests.support.node.pod_node import PodNode


@pytest.fixture(scope="session")
def box() -> Path:
    """Return the folder of the box; without a box the tests are skipped."""
    folder = inside()
    if folder is None:
        pytest.skip("the end-to-end tests run in a box: make e2e")
    return folder


@pytest.fixture(scope="session")
def cluster(box: Path, pytestconfig: pytest.Config) -> Iterator[KubeCluster]:
    """Yield a cluster whose API server pods reach."""
    cluster = KubeCluster("e2e", node_address=ADDRESS)
    with kept_open(pytestconfig, pytestconfig.stash, [cluster]):
        say("starting the control plane")
        yield cluster.start()


@pytest.fixture(scope="session")
def node(box: Path, cluster: KubeCluster, pytestconfig: pytest.Config) -> Iterator[PodNode]:
    """Yield a node that runs pods, with all images."""
    node = PodNode(cluster)
    with kept_open(pytestconfig, pytestconfig.stash, [node]):
        say("starting the node")
        node.start([write_pause_image(box / "pause.tar"), *(image.archive for image in images().values())])
        say(f"the node is ready, with {len(node.images())} images")
        yield node


@pytest.fixture(scope="session")
def shop(box: Path, cluster: KubeCluster, node: PodNode, pytestconfig: pytest.Config) -> Iterator[Shop]:
    """Yield the shop, with both operators installed by their charts. All stories share it."""
    brokers = {
        "A": KafkaCluster("a", host=ADDRESS),
        "B": KafkaCluster("b", host=ADDRESS, users={USER: secrets.token_hex(16)}),
        "C": KafkaCluster("c", host=ADDRESS),
    }
    with kept_open(pytestconfig, pytestconfig.stash, list(brokers.values())):
        start_all(brokers.values())
        say("three Kafka clusters run outside of Kubernetes")
        shop = Shop(cluster, brokers, box, images()["spark-app"].name)
        shop.open()
        try:
            install_spark_operator(cluster, images()["spark-operator"].name)
            say("Kubeflow's spark-operator is installed by its chart")
            install_operator(cluster, images()["operator"].name)
            say("our operator is installed by its chart")
            yield shop
        finally:
            shop.close()
