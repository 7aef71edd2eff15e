"""Deletions in any order: the document of a running driver loses nothing, and no drain is forgotten."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest

from dynamic_kafka.contract.kubernetes_names import STREAMS_ANNOTATION
from kafkastream_operator.core.document import Document
from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.kube.api import CONFIG_MAPS, KUBEFLOW_APPLICATIONS, STREAMS, SUBSCRIPTIONS
from tests.support.resources import states
from tests.unit.operator.drains import DRAINED
from tests.unit.operator.server import DOCUMENT, Operator, Server
from tests.unit.operator.world import cluster

ANNOTATED = {STREAMS_ANNOTATION: "orders"}
DELETED = ("stream", "subscription", "application", "document")
LAGS = TopicReport(lag=5, quiet_s=0)


class Story:
    """A story in which east was removed from the stream and drains, while the driver reads east and west.

    Attributes:
        read: the newest document in the driver's mount; the kubelet keeps it after the ConfigMap was deleted.
    """

    def __init__(self, *, annotated: bool) -> None:
        self.server, self.annotated = Server(), annotated
        self.operator, self.read = Operator(self.server), Document.__new__(Document)
        self.server.stream(cluster("east"), cluster("west"))
        self.applies_again()
        self.server.report()
        self.rests()
        self.server.stream(cluster("west"))
        self.rests()
        self.server.report(east__orders=LAGS)
        self.rests()
        assert states(self.read) == {"east/orders": "Draining", "west/orders": "Active"}

    def applies_again(self) -> None:
        """Apply the application, and its subscription or annotations."""
        self.server.put(KUBEFLOW_APPLICATIONS, "app", {}, annotations=ANNOTATED if self.annotated else {})
        if not self.annotated:
            self.server.subscription()
        self.rests()

    def rests(self) -> None:
        """Let operator and Spark work until nothing changes."""
        for _ in range(5):
            self.operator.works()
            self.server.spark()
        self.read = self.server.document() or self.read

    def deletes(self, what: str) -> None:
        """Delete the object; a subscription from annotations by removing these, while the application exists."""
        if what == "stream":
            self.server.remove(STREAMS, "orders")
        elif what == "application":
            self.server.remove(KUBEFLOW_APPLICATIONS, "app")
        elif what == "document":
            self.server.remove(CONFIG_MAPS, DOCUMENT)
        elif self.annotated and self.server.find(KUBEFLOW_APPLICATIONS) is not None:
            self.server.put(KUBEFLOW_APPLICATIONS, "app", {})
        else:
            self.server.remove(SUBSCRIPTIONS, "app")
        self.rests()

    def drains(self) -> bool:
        """Return whether east is in the document until the driver reports that it is drained, and not after that."""
        topic_states = states(self.server.document())
        assert topic_states is not None
        if topic_states.get("east/orders") != "Draining":
            return False
        for beat, topic in enumerate((LAGS, LAGS, DRAINED)):
            assert "east/orders" in (states(self.server.document()) or {})
            self.server.now += timedelta(seconds=10)
            self.server.report(beat, east__orders=topic)
            self.rests()
        assert states(self.server.document()) == {"west/orders": "Active"}
        return True


@pytest.mark.parametrize("annotated", [True, False], ids=["annotated", "by hand"])
@pytest.mark.parametrize("order", list(permutations(DELETED)), ids="-".join)
def test_deletions_in_any_order_lose_no_drain(order: tuple[str, ...], annotated: bool) -> None:
    story = Story(annotated=annotated)
    for what in order:
        story.deletes(what)
        assert set(states(story.read) or {}) == {"east/orders", "west/orders"}, f"after {what}"
        assert (states(story.read) or {})["east/orders"] == "Draining"
    # Only if the subscription goes before its document, nothing remembers the drain.
    left = story.server.document() is not None
    assert left == (order.index("document") < order.index("subscription"))
    story.server.stream(cluster("west"))
    story.applies_again()
    assert story.drains() == left


@pytest.mark.parametrize("order", list(permutations(["stream", "subscription", "document"])), ids="-".join)
def test_a_running_driver_remembers_what_drains(order: tuple[str, ...]) -> None:
    story = Story(annotated=False)
    for what in order:
        story.deletes(what)
    story.server.stream(cluster("west"))
    story.applies_again()
    assert story.drains()


@pytest.mark.parametrize("order", list(permutations(["stream", "application", "document"])), ids="-".join)
def test_an_orphan_keeps_its_drains_for_its_retention(order: tuple[str, ...]) -> None:
    story = Story(annotated=True)
    for what in order:
        story.deletes(what)
    story.server.now += timedelta(days=7) - timedelta(seconds=1)
    story.rests()
    assert (states(story.server.document()) or {})["east/orders"] == "Draining"
    story.server.now += timedelta(seconds=2)
    story.rests()
    assert story.server.document() is None
    assert story.server.find(SUBSCRIPTIONS) is None
