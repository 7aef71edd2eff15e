"""Attacks that must fail: `docs/reference/threat-model.md` names each, and the test that shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION
from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.annotated import MADE_LABEL
from kafkastream_operator.core.drain_evidence import Driver, Report
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING
from kafkastream_operator.handlers.subscription_view import ObservedSubscription, catalog_of, observe_subscription
from kafkastream_operator.kube.api import KUBEFLOW_APPLICATIONS, PODS, STREAMS, SUBSCRIPTIONS, Resource
from kafkastream_operator.kube.cache import Cache
from kafkastream_operator.models.subscription import Rollout, SubscriptionStatus
from tests.unit.operator.world import START, World, cluster, revision_of, running

DANGEROUS = {
    "loads code": {"plugin.library.paths": "/tmp/x.so"},
    "runs a command": {"sasl.kerberos.kinit.cmd": "sh -c x"},
    "fetches a URL": {"sasl.oauthbearer.token.endpoint.url": "https://evil"},
    "names a path": {"ssl.ca.location": "/etc/passwd"},
    "names a file of a folder that it does not have": {"ssl.ca.location": "passwd"},
    "refers to a file": {"client.id": "${file:/etc/passwd:root}"},
    "holds a credential": {"sasl.password": "hunter2"},
}
FLINKS = """
- streamId: orders
  clusterMetadataList:
    - clusterId: west
      bootstrapServers: west:9092
      topics: [orders]
      {more}
"""


@pytest.mark.parametrize("what", DANGEROUS)
def test_a_stream_changes_nothing_if_it(what: str) -> None:
    # The operator checks this by itself, because the CRD's rules may be older, or removed.
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west", properties=DANGEROUS[what])).settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", "InvalidStream")
    assert "hunter2" not in world.message("StreamsResolved")


@pytest.mark.parametrize("what", DANGEROUS)
def test_a_configmap_changes_nothing_if_it(what: str) -> None:
    world = World(spec={"updateStrategy": "Reload"})
    world.config_maps["flink"] = FLINKS.format(more="")
    world.settle()
    world.config_maps["flink"] = FLINKS.format(more=f"properties: {DANGEROUS[what]}").replace("west", "evil")
    world.settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", "InvalidConfigMap")
    assert "hunter2" not in world.message("StreamsResolved")


@pytest.mark.parametrize("field", ["secretFolder: login", "secretRef: {name: login}"])
def test_a_configmap_cannot_ask_for_a_secret(field: str) -> None:
    world = World(spec={"secrets": [binding("west", "west:9092")]})
    world.config_maps["flink"] = FLINKS.format(more=field)
    world.settle()
    assert world.document is None


def binding(name: str, *servers: str) -> dict[str, Any]:
    """Return a binding of the Secret `login` to a cluster."""
    return {"cluster": name, "name": "login", "allowedServers": list(servers)}


def with_secret(name: str, **more: Any) -> dict[str, Any]:
    """Return a cluster that asks for that Secret."""
    return cluster(name, secretRef={"name": "login"}, **more)


REDIRECTED = {
    "to other servers": (with_secret("east") | {"bootstrapServers": "evil:9092"}, "ServerNotAllowed"),
    "to other servers as well": (with_secret("east") | {"bootstrapServers": "east:9092,evil:9092"}, "ServerNotAllowed"),
    "to a cluster of another name": (with_secret("evil"), "SecretNotBound"),
    "by a renaming": (with_secret("evil", renamedFrom="east"), "SecretNotBound"),
    "by another Secret": (cluster("east", secretRef={"name": "other"}), "SecretNotBound"),
}


@pytest.mark.parametrize("how", REDIRECTED)
def test_a_secret_is_not_redirected(how: str) -> None:
    world = running(updateStrategy="Reload", secrets=[binding("east", "east:9092")])
    world.stream("orders", with_secret("east")).settle()
    evil, reason = REDIRECTED[how]
    world.stream("orders", evil).settle()
    assert world.condition("StreamsResolved") == ("False", reason)
    assert world.document is not None
    for content in world.document.streams["orders"]["clusters"].values():
        assert (content["bootstrapServers"], content["secretFolder"]) == ("east:9092", "login")


def test_the_case_of_a_host_name_does_not_count() -> None:
    world = running(updateStrategy="Reload", secrets=[binding("east", "EAST:9092")])
    world.stream("orders", with_secret("east"))
    world.settle()
    assert world.condition("StreamsResolved")[0] == "True"


def test_the_message_names_the_asked_and_the_bound_secret() -> None:
    world = running(updateStrategy="Reload", secrets=[binding("east", "east:9092")])
    world.stream("orders", cluster("east", secretRef={"name": "other"})).settle()
    text = "asks for Secret 'other' on cluster 'east', and spec.secrets[cluster=east] binds 'login'"
    assert text in world.message("StreamsResolved")


def test_a_forged_status_neither_lets_go_nor_adds_anything() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west")).settle()
    evil = {"orders": {"clusters": {"evil": {"bootstrapServers": "evil:9092", "topics": ["orders"]}}}}
    done = Rollout(token="forged/99", method="Restart", phase="Confirmed", at="2026-11-01T00:00:00Z")
    world.status = SubscriptionStatus(kept=evil, rollout=done, draining=())
    world.settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert [topic.cluster for topic in world.status.draining] == ["east"]


HUGE = Revision(lineage="x", counter=10**18 - 1)
SPOILED = {
    "on a pod that only looks like the driver": Driver("p", "p", False, True, report=Report(applied=HUGE, pod="p")),
    "as a token on such a pod": Driver("p", "p", False, True, str(HUGE)),
    "by another pod on the driver's": Driver("p", "p", True, True, report=Report(applied=HUGE, pod="q")),
    "by the driver": Driver("p", "p", True, True, str(HUGE), Report(applied=HUGE, pod="p")),
}


@pytest.mark.parametrize("lost", [False, True], ids=["all else is there", "document and status are lost"])
@pytest.mark.parametrize("where", SPOILED)
def test_a_forged_revision_leaves_room_for_the_next_one(where: str, lost: bool) -> None:
    world = running(updateStrategy="Reload")
    world.driver = SPOILED[where]
    if lost:
        world.document, world.status = None, SubscriptionStatus()
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert revision_of(world).lineage == "fresh"
    assert 1 <= revision_of(world).counter < 10
    parsed = Revision.parse(revision_of(world).token)
    assert parsed is not None and parsed.is_at_least(revision_of(world)) and revision_of(world).is_at_least(parsed)


def test_a_revision_in_a_manifest_leaves_room_for_the_next_one() -> None:
    world = World()
    world.stream("orders", cluster("east"))
    world.application_is("Starting", token=str(HUGE)).settle()
    assert revision_of(world).counter == 1


# -- the view of a cluster --------------------------------------------------------------------------------------


class Cluster:
    """Objects of a cluster, as the operator's cache has them."""

    def __init__(self) -> None:
        self.now, self.count = 0.0, 0
        self.cache = Cache(lambda: self.now)

    def put(self, resource: Resource, name: str, namespace: str = "ours", **content: Any) -> dict[str, Any]:
        """Put an object, younger than the ones before."""
        self.count += 1
        meta = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{self.count}",
            "resourceVersion": str(self.count),
            "creationTimestamp": f"2026-11-01T00:00:{self.count:02}Z",
            **content.pop("metadata", {}),
        }
        manifest = {"apiVersion": resource.api_version, "kind": "x", "metadata": meta, **content}
        self.cache.put(resource, manifest)
        return manifest

    def driver(self, name: str, report: str = "") -> Mapping[str, Any]:
        """Put a pod with the labels of the application's driver."""
        labels = {"sparkoperator.k8s.io/app-name": "app", "spark-role": "driver"}
        annotations = {REPORT_ANNOTATION: report} if report else {}
        metadata = {"labels": labels, "annotations": annotations}
        return self.put(PODS, name, metadata=metadata, status={"phase": "Running"})

    def observe_subscription(self, name: str = "app") -> ObservedSubscription:
        """Return the view of the subscription."""
        seen = observe_subscription(self.cache, "ours", name, START, DEFAULT_TIMING)
        assert seen is not None
        return seen


@pytest.fixture
def world() -> Cluster:
    """Return a cluster with a running application and its subscription."""
    made = Cluster()
    spec = {"applicationRef": {"name": "app"}, "streams": {"pattern": ".*"}}
    made.put(SUBSCRIPTIONS, "app", spec=spec)
    status = {"applicationState": {"state": "RUNNING"}, "driverInfo": {"podName": "app-driver"}}
    made.put(KUBEFLOW_APPLICATIONS, "app", spec={}, status=status)
    return made


def test_a_stream_of_another_namespace_is_not_read(world: Cluster) -> None:
    world.put(STREAMS, "orders", spec={"clusters": [cluster("east")]})
    world.put(STREAMS, "payments", namespace="theirs", spec={"clusters": [cluster("west")]})
    assert list(catalog_of(world.cache, "ours").streams) == ["orders"]
    assert list(world.observe_subscription().view.catalog.streams) == ["orders"]


def test_an_application_of_another_namespace_is_not_touched(world: Cluster) -> None:
    world.put(SUBSCRIPTIONS, "other", spec={"applicationRef": {"name": "theirs"}, "streams": {"pattern": ".*"}})
    world.put(KUBEFLOW_APPLICATIONS, "theirs", namespace="theirs", spec={})
    assert world.observe_subscription("other").application is None


def test_a_pod_that_looks_like_the_driver_is_ignored(world: Cluster) -> None:
    world.driver("app-driver")
    world.driver("intruder", '{"beat": 1}')
    driver = world.observe_subscription().view.driver
    assert driver is not None
    assert (driver.name, driver.report) == ("app-driver", None)


def test_a_pod_not_named_by_the_status_is_no_driver(world: Cluster) -> None:
    world.driver("intruder", '{"beat": 1}')
    driver = world.observe_subscription().view.driver
    assert driver is not None
    assert not driver.owned


def test_a_report_found_at_the_start_is_no_sign_of_life(world: Cluster) -> None:
    report = json.dumps({"pod": "uid-9", "beat": 7})
    pod = world.driver("app-driver", report)
    driver = world.observe_subscription().view.driver
    assert driver is not None
    assert driver.report is not None
    assert not driver.seen_alive
    world.now += 10
    annotations = {REPORT_ANNOTATION: report.replace("7", "8")}
    world.put(PODS, "app-driver", metadata={**pod["metadata"], "resourceVersion": "99", "annotations": annotations},
              status={"phase": "Running"})  # fmt: skip
    driver = world.observe_subscription().view.driver
    assert driver is not None
    assert driver.seen_alive


def test_a_malformed_status_counts_as_lost(world: Cluster) -> None:
    spec = {"applicationRef": {"name": "app"}, "streams": {"pattern": ".*"}}
    metadata = {"uid": "uid-1"}
    world.put(SUBSCRIPTIONS, "app", spec=spec, status={"draining": "nothing", "more": 1}, metadata=metadata)
    assert world.observe_subscription().view.status == SubscriptionStatus()


@pytest.mark.parametrize("made", ["app", "second", ""], ids=["the older is", "the younger is", "none is"])
def test_the_younger_of_two_subscriptions_gives_way(world: Cluster, made: str) -> None:
    spec = {"applicationRef": {"name": "app"}, "streams": {"ids": ["other"]}}
    labels = {made: {"labels": {MADE_LABEL: "app"}}}
    world.put(SUBSCRIPTIONS, "app", spec=spec, metadata=labels.get("app", {}))
    world.put(SUBSCRIPTIONS, "second", spec=spec, metadata=labels.get("second", {}))
    assert world.observe_subscription("second").view.rival == "app"
    assert world.observe_subscription("app").view.rival == ""
