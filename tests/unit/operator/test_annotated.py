"""Subscriptions from annotations: applications of both kinds get one each, and delete no other."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import RELEASE_ANNOTATION, STRATEGY_ANNOTATION, STREAMS_ANNOTATION
from kafkastream_operator.core.annotated import MADE_LABEL, is_applied_by_hand
from kafkastream_operator.errors import ApiError
from kafkastream_operator.kube.api import APACHE_APPLICATIONS, KUBEFLOW_APPLICATIONS, SUBSCRIPTIONS, Resource
from tests.unit.operator.server import Operator, Server
from tests.unit.operator.world import START, World, cluster

ANNOTATED = {STREAMS_ANNOTATION: "orders"}


class Annotated(Server):
    """A server whose applications are reconciled as soon as they are applied."""

    def __init__(self) -> None:
        super().__init__()
        self.operator = Operator(self)

    def application(self, resource: Resource, annotations: dict[str, str], name: str = "app") -> None:
        """Put an application and reconcile it."""
        self.put(resource, name, {}, annotations=annotations)
        self.operator.reconcile(resource, name)

    @property
    def applied(self) -> list[Mapping[str, Any]]:
        """The specs of the subscriptions that were applied."""
        return [write.body["spec"] for write in self.writes if write.method == "PATCH"]

    @property
    def deleted(self) -> list[str]:
        """The names of the subscriptions that were deleted."""
        return [write.name for write in self.writes if write.method == "DELETE"]

    @property
    def texts(self) -> list[str]:
        """The reasons and texts of the Events."""
        return [f"{event['reason']}: {event['note']}" for event in self.events]


@pytest.fixture
def server() -> Annotated:
    return Annotated()


@pytest.mark.parametrize("resource", [KUBEFLOW_APPLICATIONS, APACHE_APPLICATIONS], ids=["kubeflow", "apache"])
def test_an_annotated_application_of_either_kind_subscribes(server: Annotated, resource: Resource) -> None:
    server.application(resource, ANNOTATED)
    (spec,) = server.applied
    assert spec["applicationRef"] == {"apiVersion": resource.api_version, "kind": "SparkApplication", "name": "app"}
    made = server.find(SUBSCRIPTIONS)
    assert made is not None
    assert MADE_LABEL in made["metadata"]["labels"]
    server.application(resource, {})
    assert server.deleted == ["app"]


def test_the_other_kind_of_application_deletes_no_subscription(server: Annotated) -> None:
    server.application(APACHE_APPLICATIONS, ANNOTATED)
    server.application(KUBEFLOW_APPLICATIONS, {})
    assert server.deleted == []
    server.application(KUBEFLOW_APPLICATIONS, ANNOTATED)
    assert len(server.applied) == 1
    (event,) = server.texts
    assert event.startswith(
        "SubscriptionExists: KafkaStreamSubscription app is for the SparkApplication app of spark.apa"
    )


@pytest.mark.parametrize("length", [63, 64])
def test_too_long_an_application_name_is_an_event(server: Annotated, length: int) -> None:
    server.application(KUBEFLOW_APPLICATIONS, ANNOTATED, "a" * length)
    if length == 63:
        assert (len(server.applied), server.texts) == (1, [])
        return
    assert server.applied == []
    (event,) = server.texts
    assert event.startswith("InvalidAnnotation: the application's name has 64 characters")
    assert "KafkaStreamSubscription with a name" in event


def test_a_refused_subscription_is_one_event(server: Annotated) -> None:
    server.refuses = lambda write: 403 * (write.plural == SUBSCRIPTIONS.plural)
    for _ in range(2):
        with pytest.raises(ApiError):
            server.application(KUBEFLOW_APPLICATIONS, ANNOTATED)
    assert server.texts == [
        "SubscriptionRefused: the API server refuses the KafkaStreamSubscription of these annotations: "
        "exceeded quota: count/kafkastreamsubscriptions"
    ]
    server.refuses = lambda write: 0
    server.application(KUBEFLOW_APPLICATIONS, ANNOTATED)
    assert len(server.applied) == 1


def test_a_misspelt_annotation_deletes_no_subscription(server: Annotated) -> None:
    server.application(KUBEFLOW_APPLICATIONS, ANNOTATED)
    server.application(KUBEFLOW_APPLICATIONS, {STREAMS_ANNOTATION[:-1]: "orders"})
    assert server.deleted == []
    assert [text.partition(":")[0] for text in server.texts] == ["InvalidAnnotation"]
    server.application(KUBEFLOW_APPLICATIONS, {})
    assert server.deleted == ["app"]


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("kafkastream.dev/updateStrategy", f"if you mean {STRATEGY_ANNOTATION}, write that"),
        (RELEASE_ANNOTATION, "annotate its KafkaStreamSubscription"),
    ],
)
def test_an_annotation_without_effect_is_an_event(server: Annotated, key: str, remedy: str) -> None:
    for _ in range(2):
        server.application(KUBEFLOW_APPLICATIONS, {**ANNOTATED, key: "x"})
    assert len(server.applied) == 1
    (event,) = server.texts
    assert event.startswith(f"InvalidAnnotation: {key}")
    assert event.endswith(remedy)


@pytest.mark.parametrize("why", ["StreamMissing", "ApplicationTaken", "ConfigMapTaken"])
def test_an_orphan_without_a_document_is_deleted_too(why: str) -> None:
    world = World(annotated=True)
    if why != "StreamMissing":
        world.stream("orders", cluster("east"))
    world.rival = "older" if why == "ApplicationTaken" else ""
    world.taken = why == "ConfigMapTaken"
    world.application_is("Starting").settle()
    assert world.condition("StreamsResolved") == ("False", why)
    world.application = None
    world.settle()
    assert world.again == START + timedelta(days=7)
    world.later(days=6)
    assert not world.look().delete
    world.application_is("Starting").settle()
    assert world.status.orphaned_at is None
    world.application = None
    world.settle()
    world.later(days=7)
    assert world.look().delete


@pytest.mark.parametrize(
    ("metadata", "by_hand"),
    [
        ({}, False),
        ({"managedFields": [{"manager": "us", "fieldsV1": {"f:spec": {"f:applicationRef": {}}}}]}, False),
        ({"managedFields": [{"manager": "kubectl-patch", "fieldsV1": {"f:spec": {"f:secrets": {}}}}]}, False),
        ({"managedFields": [{"manager": "them", "operation": "Update"}]}, False),
        ({"managedFields": [{"manager": "flux", "fieldsV1": {"f:spec": {"f:applicationRef": {}}}}]}, True),
        ({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}, True),
    ],
)
def test_a_manifest_applied_by_hand_is_recognised(metadata: dict[str, Any], by_hand: bool) -> None:
    assert is_applied_by_hand({"metadata": metadata}, manager="us") == by_hand
