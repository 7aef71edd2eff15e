"""Problems become Events: each once, as a warning, on the object that has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from dynamic_kafka.contract.kubernetes_names import METADATA_ROLE, ROLE_LABEL, STREAMS_ANNOTATION
from kafkastream_operator.core.conditions.subscription import SUMMARY, with_conditions
from kafkastream_operator.core.decide import decide, without_document, without_status
from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers.apply_plan import NORMAL_EVENTS
from kafkastream_operator.kube.api import CONFIG_MAPS, KUBEFLOW_APPLICATIONS, STREAMS, SUBSCRIPTIONS
from kafkastream_operator.models.conditions import condition
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.server import Operator, Server, Write, rest
from tests.unit.operator.world import World, cluster, restarted, running


def reasons(world: World) -> list[str]:
    """Return the reasons of the Events since the last call."""
    event_reasons = [reason for reason, _ in world.events]
    world.events.clear()
    return event_reasons


def test_each_mistake_in_a_stream_is_one_event() -> None:
    world = running(updateStrategy="Reload")
    reasons(world)
    world.stream("orders", cluster("east", startingOffsets="sometimes")).settle()
    world.later(minutes=30).settle()
    assert "startingOffsets" in world.events[0][1]
    assert reasons(world) == ["InvalidStream"]
    world.stream("orders", cluster("east", stoppingOffsets="sometimes")).settle()
    assert reasons(world) == ["InvalidStream"]
    world.stream("orders", cluster("east")).settle()
    assert reasons(world) == []


def test_an_obstacle_to_the_first_document_is_an_event() -> None:
    world = World()
    world.settle()
    assert reasons(world) == ["StreamMissing"]
    world.rival = "older"
    world.settle()
    assert reasons(world) == ["ApplicationTaken"]


def test_a_document_that_is_not_mounted_is_one_event() -> None:
    world = running(updateStrategy="Reload")
    reasons(world)
    assert world.driver is not None
    world.driver = replace(world.driver, mounted=False)
    world.settle()
    world.later(minutes=1).settle()
    assert reasons(world) == ["NotMounted"]


def test_a_drain_that_takes_too_long_is_one_event() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west"), timeout="1h").settle()
    reasons(world)
    for lag in (5, 0, 5):
        world.later(hours=2)
        world.driver_reports(east__orders=TopicReport(lag=lag, quiet_s=0)).settle()
    assert reasons(world) == ["Confirmed", "DrainTimedOut"]


@pytest.mark.parametrize("strategy", ["Reload", "Restart"])
def test_a_confirmed_roll_out_is_one_normal_event(strategy: str) -> None:
    world = running(updateStrategy=strategy)
    assert "Confirmed" not in reasons(world)  # the first document is adopted
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert "Confirmed" not in reasons(world)
    if strategy == "Restart":
        restarted(world)
    else:
        world.driver_reports().settle()
    assert [event for event in world.events if event[0] == "Confirmed"] == [("Confirmed", "revision 2 is in force")]
    assert "Confirmed" in NORMAL_EVENTS
    reasons(world)
    world.later(minutes=5).changes(pause={"reason": "freeze"}).settle()
    world.changes(pause=None).settle()
    assert reasons(world) == []
    # Nothing is new after the loss of a status either.
    world.status = SubscriptionStatus()
    world.settle()
    assert "Confirmed" not in reasons(world)


@pytest.mark.parametrize("what", ["edited", "deleted"])
def test_a_restored_document_has_an_event_of_its_own(what: str) -> None:
    world = running(updateStrategy="Reload")
    reasons(world)
    if what == "edited":
        world.edited = True
    else:
        world.document = None
    world.settle()
    assert reasons(world) == ["Restored"]
    world.stream("orders", cluster("west")).settle()
    assert reasons(world) == ["Rendered", "RollingOut"]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def operator(server: Server) -> Operator:
    return Operator(server)


def events(server: Server) -> list[tuple[str, ...]]:
    """Return kind and name of the object of each Event, its type and its reason."""
    return [
        (event["regarding"]["kind"], event["regarding"]["name"], event["type"], event["reason"])
        for event in server.events
    ]


def test_a_mistake_is_an_event_of_the_stream_as_well(server: Server, operator: Operator) -> None:
    server.put(STREAMS, "orders", {"clusters": [cluster("east", startingOffsets="sometimes")]})
    for _ in range(3):
        operator.reconcile(STREAMS, "orders")
    assert events(server) == [("KafkaStream", "orders", "Warning", "InvalidStream")]


FLINKS = "- streamId: {}\n  clusterMetadataList: [{{clusterId: east, bootstrapServers: '{}:9092', topics: [t]}}]\n"


def test_configmaps_that_disagree_both_get_an_event(server: Server, operator: Operator) -> None:
    labels = {ROLE_LABEL: METADATA_ROLE}
    server.put(CONFIG_MAPS, "one", {}, {"data": {"a.yaml": FLINKS.format("orders", "here")}}, labels=labels)
    server.put(CONFIG_MAPS, "two", {}, {"data": {"a.yaml": FLINKS.format("other", "there")}}, labels=labels)
    for name in ("one", "two", "one", "two"):
        operator.reconcile(CONFIG_MAPS, name)
    assert events(server) == [
        ("ConfigMap", "one", "Warning", "Conflict"),
        ("ConfigMap", "two", "Warning", "Conflict"),
    ]


def test_a_subscription_of_a_newer_crd_is_invalid(server: Server, operator: Operator) -> None:
    spec = {"applicationRef": {"name": "app"}, "streams": {"ids": ["orders"]}, "updateStrategy": "Canary-hunter2"}
    kept = {"rendered": {"configMap": "app-kafkastreams", "lineage": "l", "counter": 3, "hash": "h", "restored": 0}}
    server.put(SUBSCRIPTIONS, "app", spec, {"status": kept})
    for _ in range(3):
        operator.reconcile(SUBSCRIPTIONS, "app")
    assert events(server) == [("KafkaStreamSubscription", "app", "Warning", "InvalidSubscription")]
    subscription = server.find(SUBSCRIPTIONS)
    assert subscription is not None
    assert subscription["status"]["rendered"] == kept["rendered"]
    found_by_type = {entry["type"]: entry for entry in subscription["status"]["conditions"]}
    assert (found_by_type["Ready"]["status"], found_by_type["Ready"]["reason"]) == ("False", "InvalidSubscription")
    assert re.search(r"spec\.updateStrategy: .*'Restart', 'Reload' or 'Auto'", found_by_type["Ready"]["message"])
    assert "hunter2" not in str(found_by_type)


def test_wrong_annotations_are_one_event_while_they_last(server: Server, operator: Operator) -> None:
    wrong, right = {STREAMS_ANNOTATION: " "}, dict[str, str]()
    for hours, given, count in ((0, wrong, 1), (5, wrong, 1), (0, right, 1), (0.5, wrong, 1), (0, right, 1)):
        server.now += timedelta(hours=hours)
        server.put(KUBEFLOW_APPLICATIONS, "app", {}, annotations=given)
        assert operator.reconcile(KUBEFLOW_APPLICATIONS, "app") is None
        assert events(server) == [("SparkApplication", "app", "Warning", "InvalidAnnotation")] * count
    # An hour after they were corrected, they are a new mistake: the Event of the last one is forgotten.
    server.now += timedelta(hours=1)
    server.put(KUBEFLOW_APPLICATIONS, "app", {}, annotations=wrong)
    operator.reconcile(KUBEFLOW_APPLICATIONS, "app")
    assert len(events(server)) == 2


def test_a_refused_subscription_of_annotations_is_one_event(server: Server, operator: Operator) -> None:
    server.put(KUBEFLOW_APPLICATIONS, "app", {}, annotations={STREAMS_ANNOTATION: "orders"})
    server.refuses = lambda write: 403 * (write.plural == SUBSCRIPTIONS.plural)
    for _ in range(3):
        with pytest.raises(ApiError):
            operator.reconcile(KUBEFLOW_APPLICATIONS, "app")
    assert events(server) == [("SparkApplication", "app", "Warning", "SubscriptionRefused")]


REFUSALS = [
    (422, "Invalid", "status: Invalid value"),
    (413, "RequestEntityTooLarge", "limit is 3145728"),
    (500, "InternalError", "etcdserver: request is too large"),
    (
        500,
        "InternalError",
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)",
    ),
]


@pytest.mark.parametrize("why", REFUSALS, ids=[refusal[2] for refusal in REFUSALS])
def test_a_refused_status_is_a_condition_and_one_event(
    server: Server, operator: Operator, why: tuple[int, str, str]
) -> None:
    server.put(KUBEFLOW_APPLICATIONS, "app", {})
    server.stream(cluster("east"))
    server.subscription(updateStrategy="Restart")
    rest(server)
    before, count = server.writes.copy(), len(events(server))

    def refuses(write: Write) -> int:
        rollout = write.body.get("status", {}).get("rollout", {})
        if write.plural == SUBSCRIPTIONS.plural and rollout.get("phase") == "Pending":
            raise ApiError("PUT", *why)
        return 0

    server.refuses = refuses
    server.stream(cluster("east"), cluster("west"))
    for _ in range(3):
        with pytest.raises(ApiError):  # the queue retries it with a growing back-off
            operator.reconcile(SUBSCRIPTIONS, "app")
    assert events(server)[count:] == [("KafkaStreamSubscription", "app", "Warning", "StatusRefused")]
    made = [(call.method, call.plural) for call in server.writes[len(before) :] if call.plural != "events"]
    assert made == [("PUT", "configmaps"), ("PUT", "kafkastreamsubscriptions")]
    subscription = server.find(SUBSCRIPTIONS)
    assert subscription is not None
    by_type = {entry["type"]: (entry["status"], entry["reason"]) for entry in subscription["status"]["conditions"]}
    assert by_type["Ready"] == ("False", "StatusRefused")
    server.refuses = lambda write: 0
    rest(server)
    subscription = server.find(SUBSCRIPTIONS)
    assert subscription is not None
    by_type = {entry["type"]: (entry["status"], entry["reason"]) for entry in subscription["status"]["conditions"]}
    assert by_type["StreamsResolved"] == ("True", "Resolved")


@pytest.mark.parametrize("status", [400, 403, 422])
def test_a_refused_document_is_a_condition_and_one_event(server: Server, operator: Operator, status: int) -> None:
    server.refuses = lambda write: status * (write.plural == CONFIG_MAPS.plural)
    server.stream(cluster("east"))
    server.subscription()
    for _ in range(3):
        with pytest.raises(ApiError):  # the queue retries it with a growing back-off
            operator.reconcile(SUBSCRIPTIONS, "app")
    assert events(server) == [("KafkaStreamSubscription", "app", "Warning", "DocumentRefused")]
    subscription = server.find(SUBSCRIPTIONS)
    assert subscription is not None
    found_by_type = {entry["type"]: entry for entry in subscription["status"]["conditions"]}
    assert [found_by_type[kind]["status"] for kind in ("StreamsResolved", "Ready", "Stalled")] == [
        "False",
        "False",
        "True",
    ]
    assert "exceeded quota: count/configmaps" in found_by_type["Ready"]["message"]
    assert "rendered" not in subscription["status"]
    server.refuses = lambda write: 0
    operator.reconcile(SUBSCRIPTIONS, "app")
    subscription = server.find(SUBSCRIPTIONS)
    assert subscription is not None
    found_by_type = {entry["type"]: entry for entry in subscription["status"]["conditions"]}
    assert (found_by_type["StreamsResolved"]["status"], found_by_type["Stalled"]["status"]) == ("True", "False")
    assert subscription["status"]["rendered"]["counter"] == 1


def refused_status(world: World) -> SubscriptionStatus:
    """Return the status after the API server has refused a newer one."""
    return without_status(world.view(), "too large")


def refused_document(world: World) -> SubscriptionStatus:
    """Return the status after the API server has refused a newer document."""
    return without_document(world.view(), decide(world.view()), "exceeded quota")


def unreadable_spec(world: World) -> SubscriptionStatus:
    """Return the status of a subscription whose newer spec cannot be read."""
    conditions = (condition("StreamsResolved", "InvalidSubscription", "unknown field"),)
    return with_conditions(world.status, conditions, generation=world.generation, now=stamp(world.now))


@pytest.mark.parametrize("after", [refused_status, refused_document, unreadable_spec])
def test_a_condition_that_is_behind_keeps_its_generation(after: Callable[[World], SubscriptionStatus]) -> None:
    """A wait for such a condition ends only when it is about the newest spec."""
    world = running().changes(updateStrategy="Restart")
    behind = {"RolledOut", "Mounted", "Reporting", "Drained", "ApplicationFound", "Finished", "ClusterNeverReached"}
    status = after(world)
    assert status.observed_generation == 2
    generations = {entry.type: entry.observed_generation for entry in status.conditions}
    assert generations == dict.fromkeys(behind, 1) | dict.fromkeys(("StreamsResolved", *SUMMARY), 2)
