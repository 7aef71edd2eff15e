"""Work by hand with kubectl: names and columns, and objects that users edit or delete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import METADATA_ROLE, ROLE_LABEL, STREAMS_ANNOTATION, SUBSCRIPTION_LABEL
from kafkastream_operator.core.annotated import MADE_LABEL
from tests.integration.operator.stage import DOCUMENT, STREAMS, SUBSCRIPTIONS, Stage, cluster, condition
from tests.support.fixtures import kept_open
from tests.support.kube import KubeCluster
from tests.support.kube.front_door import FrontDoor
from tests.support.kube_programs import spark_operator_crds
from tests.support.operator import CONFIG_MAPS, OperatorProcess

DEEP = pytest.mark.deep("a matrix of edits and watches")


@pytest.fixture(scope="module")
def door(kube: KubeCluster) -> Iterator[FrontDoor]:
    """Start the proxy through which the operator reaches the API server."""
    with FrontDoor(kube.start()) as door:
        yield door


@pytest.fixture(scope="module")
def operator(pytestconfig: pytest.Config, kube: KubeCluster, door: FrontDoor) -> Iterator[OperatorProcess]:
    """Start one operator for all tests of this file. Each test has a namespace of its own."""
    made = OperatorProcess(kube, "", through=door.kubeconfig)
    with kept_open(pytestconfig, pytestconfig.stash, [made]):
        yield made.start()


def get(stage: Stage, cache: Path, *arguments: str) -> list[str]:
    """Return the lines of `kubectl get`, with a fresh discovery of kinds."""
    return stage.kube.kubectl("get", *arguments, "-n", stage.namespace, "--cache-dir", str(cache)).splitlines()


@DEEP
def test_the_name_of_a_kind_names_that_kind_alone(stage: Stage, operator: OperatorProcess, tmp_path: Path) -> None:
    stage.stream("orders", cluster("east"))
    stage.subscription("orders")
    assert get(stage, tmp_path, "kafkastreams", "-o", "name") == ["kafkastream.kafkastream.dev/orders"]
    both = ["kafkastream.kafkastream.dev/orders", "kafkastreamsubscription.kafkastream.dev/orders"]
    assert sorted(get(stage, tmp_path, "dynamic-kafka", "-o", "name")) == both
    stage.kube.kubectl("delete", "kafkastreams", "orders", "-n", stage.namespace, "--cache-dir", str(tmp_path))
    assert get(stage, tmp_path, "dynamic-kafka", "-o", "name") == both[1:]


def test_kubectl_shows_every_cluster_and_its_state(stage: Stage, operator: OperatorProcess, tmp_path: Path) -> None:
    stage.stream("orders", cluster("east"), cluster("west"), cluster("north"))
    stage.subscription()
    stage.wait_condition("RolledOut", "Adopted")
    stage.api.wait(STREAMS, "orders", stage.namespace, until=lambda stream: condition(stream, "Ready"))
    for asked in ("kst", "kss", "kst,kss", "dynamic-kafka"):
        lines = get(stage, tmp_path, asked)
        assert any("east, west, north" in line for line in lines) == (asked != "kss"), lines
        assert any("DRAINED" in line for line in lines) == (asked != "kss"), lines
        assert any("Adopted" in line for line in lines) == (asked != "kst"), lines


BY_HAND: dict[str, dict[str, Any]] = {
    "other streams": {"streams": {"ids": ["other"]}},
    "a pattern": {"streams": {"ids": None, "pattern": "other"}},
    "another strategy": {"updateStrategy": "Reload"},
}


@pytest.mark.parametrize("what", ["deleted", *BY_HAND])
def test_a_subscription_by_annotations_is_restored_after_edits(
    what: str, kube: KubeCluster, stage: Stage, operator: OperatorProcess
) -> None:
    kube.install_crds(spark_operator_crds())
    stage.application(annotations={STREAMS_ANNOTATION: "orders"})
    stage.wait_condition("StreamsResolved", "StreamMissing")
    before = stage.subscription_now()
    if what == "deleted":
        stage.api.delete(SUBSCRIPTIONS, "app", stage.namespace)
    else:
        edited = stage.api.patch(SUBSCRIPTIONS, "app", stage.namespace, {"spec": BY_HAND[what]})
        assert edited["spec"] != before["spec"]
    stage.api.wait(
        SUBSCRIPTIONS,
        "app",
        stage.namespace,
        until=lambda subscription: (
            subscription is not None
            and subscription["spec"] == before["spec"]
            and (what != "deleted" or subscription["metadata"]["uid"] != before["metadata"]["uid"])
        ),
        timeout=30,
    )


@DEEP
@pytest.mark.parametrize("side", ["--server-side=false", "--server-side"])
def test_an_applied_subscription_outlives_its_annotations(side: str, stage: Stage, operator: OperatorProcess) -> None:
    stage.stream("orders", cluster("east"))
    stage.application(annotations={STREAMS_ANNOTATION: "orders"})
    stage.wait_document({"east/orders": "Active"})
    made = stage.subscription_now()
    assert made["metadata"]["labels"] == {MADE_LABEL: "app"}
    manifest = {
        "apiVersion": made["apiVersion"],
        "kind": made["kind"],
        "metadata": {"name": "app", "namespace": stage.namespace},
        "spec": {**made["spec"], "secrets": [{"cluster": "east", "name": "login", "allowedServers": ["east:9092"]}]},
    }
    stage.kube.kubectl("apply", side, "-f", "-", stdin=json.dumps(manifest))
    stage.application()
    kept = stage.api.wait(SUBSCRIPTIONS, "app", stage.namespace, until=lambda reply: not labels_of(reply), timeout=30)
    assert kept is not None
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
    assert kept["spec"]["secrets"] == manifest["spec"]["secrets"]


def labels_of(resource: Any) -> Any:
    return (resource or {"metadata": {"labels": "gone"}})["metadata"].get("labels")


EDITED = {
    "role off": {ROLE_LABEL: None},
    "another role": {ROLE_LABEL: METADATA_ROLE},
    "subscription off": {SUBSCRIPTION_LABEL: None},
    "another subscription": {SUBSCRIPTION_LABEL: "other"},
    "both off": {ROLE_LABEL: None, SUBSCRIPTION_LABEL: None},
}


@DEEP
@pytest.mark.parametrize("what", EDITED)
def test_labels_of_a_document_that_somebody_edits_are_put_right(
    what: str, stage: Stage, operator: OperatorProcess
) -> None:
    stage.stream("orders", cluster("east"))
    stage.subscription()
    stage.wait_condition("RolledOut", "Adopted")
    before = stage.api.get(CONFIG_MAPS, DOCUMENT, stage.namespace)
    stage.api.patch(CONFIG_MAPS, DOCUMENT, stage.namespace, {"metadata": {"labels": EDITED[what]}})
    after = stage.api.wait(
        CONFIG_MAPS,
        DOCUMENT,
        stage.namespace,
        until=lambda config_map: (config_map or {})["metadata"].get("labels") == before["metadata"]["labels"],
        timeout=30,
    )
    assert after is not None
    assert (after["data"], after["metadata"]["uid"]) == (before["data"], before["metadata"]["uid"])


LIST_FORM = """
- streamId: orders
  clusterMetadataList: [{clusterId: west, bootstrapServers: "west:9092", topics: [orders]}]
"""


@DEEP
def test_a_label_that_is_taken_off_and_put_back_counts_at_once(stage: Stage, operator: OperatorProcess) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "flink", "namespace": stage.namespace, "labels": {ROLE_LABEL: METADATA_ROLE}},
        "data": {"streams.yaml": LIST_FORM},
    }
    stage.api.create(CONFIG_MAPS, manifest)
    stage.subscription()
    stage.wait_document({"west/orders": "Active"})
    for label, state in ((None, "Draining"), (METADATA_ROLE, "Active")):
        stage.api.patch(CONFIG_MAPS, "flink", stage.namespace, {"metadata": {"labels": {ROLE_LABEL: label}}})
        stage.wait_document({"west/orders": state}, timeout=30)


@DEEP
@pytest.mark.parametrize(("plural", "labels"), [("configmaps", ROLE_LABEL), ("pods", "spark-role=driver")])
def test_the_api_server_sends_only_relevant_objects(
    plural: str, labels: str, door: FrontDoor, operator: OperatorProcess
) -> None:
    door.wait_watched(plural)
    assert door.selectors(plural) == {labels}
