"""Resources as users write them: mistakes that the API server refuses, and mistakes that the operator reports."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import METADATA_ROLE, PATTERN_ANNOTATION, ROLE_LABEL, STREAMS_ANNOTATION
from tests.integration.operator.stage import APPLICATIONS, STREAMS, SUBSCRIPTIONS, Stage, cluster, condition
from tests.support.fixtures import kept_open
from tests.support.kube import ApiError, KubeCluster, SparkOperator
from tests.support.kube_programs import spark_operator_crds
from tests.support.operator import CONFIG_MAPS, OperatorProcess
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def operator(pytestconfig: pytest.Config, kube: KubeCluster) -> Iterator[OperatorProcess]:
    """Start one operator for all tests of this file. Each test has a namespace of its own."""
    made = OperatorProcess(kube.start(), "")
    with kept_open(pytestconfig, pytestconfig.stash, [made]):
        yield made.start()


STREAM_MISTAKES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no topics": ([{"id": "e", "bootstrapServers": "e:9092", "topics": []}], "at least 1 items"),
    "no port": ([{"id": "e", "bootstrapServers": "e", "topics": ["t"]}], "bootstrapServers"),
    "an id twice": ([cluster("e"), cluster("e")], "duplicate entries"),
    "renamed from itself": ([cluster("e", renamedFrom="e")], "the cluster's own id"),
    "renamed from one that is there": ([cluster("e"), cluster("w", renamedFrom="e")], "still has"),
    "two renamed from one": (
        [cluster("e", renamedFrom="o"), cluster("w", renamedFrom="o")],
        "only one of them can take over",
    ),
    "a clusterRef": ([cluster("e", clusterRef="x")], "reserved"),
    "a plugin": ([cluster("e", properties={"plugin.library.paths": "/x.so"})], "use secretRef for"),
    "a command": ([cluster("e", properties={"sasl.kerberos.kinit.cmd": "sh"})], "use secretRef for"),
    "a password": ([cluster("e", properties={"sasl.password": "x"})], "use secretRef for"),
    "a URL": ([cluster("e", properties={"sasl.oauthbearer.token.endpoint.url": "x"})], "use secretRef for"),
    "a topic twice": ([cluster("e", "t", "o", "t")], "duplicate entries"),
    "a port that is too large": ([{"id": "e", "bootstrapServers": "e:99999", "topics": ["t"]}], "bootstrapServers"),
    "the port 0": ([{"id": "e", "bootstrapServers": "f:9092,e:0", "topics": ["t"]}], "bootstrapServers"),
    "a misspelt start": ([cluster("e", startingOffsets="earlist")], "startingOffsets"),
    "a stop at the beginning": ([cluster("e", stoppingOffsets="earliest")], "stoppingOffsets"),
    "a topic with a space": ([cluster("e", "a b")], "topics"),
    "a hexadecimal topic id": ([cluster("e", topicIds={"orders": "0f" * 16})], "prints as TopicId"),
    "a topic id that is cut": ([cluster("e", topicIds={"orders": "4ceWFAj4RwuuDIWAvAiQC"})], "prints as TopicId"),
    "a topic id with a wrong end": ([cluster("e", topicIds={"orders": "4ceWFAj4RwuuDIWAvAiQCB"})], "prints as TopicId"),
}


@pytest.mark.deep("a matrix of mistakes")
@pytest.mark.parametrize("what", STREAM_MISTAKES)
def test_the_api_server_refuses_a_stream_with(what: str, stage: Stage, operator: OperatorProcess) -> None:
    clusters, message = STREAM_MISTAKES[what]
    with pytest.raises(ApiError) as refused:
        stage.stream("orders", *clusters)
    assert message in str(refused.value)


def test_the_api_server_takes_every_form_of_offsets(stage: Stage, operator: OperatorProcess) -> None:
    at, by_topic = {"timestamp": "2026-11-01T00:00:00Z"}, {"orders": {"0": 5}}
    starts = ["earliest", "latest", "committed", at, by_topic]
    stops = ["latest", "committed", at, by_topic]
    clusters = [cluster(f"a{n}", startingOffsets=start) for n, start in enumerate(starts)]
    clusters += [cluster(f"o{n}", stoppingOffsets=stop) for n, stop in enumerate(stops)]
    stage.stream("orders", *clusters, {"id": "ports", "bootstrapServers": "e:1,f:65535,[::1]:9092", "topics": ["t"]})
    stage.subscription()
    resolved = stage.wait_condition("StreamsResolved", "Resolved")
    assert resolved["message"] == "1 stream"


SUBSCRIPTION_MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "ids and a pattern": ({"streams": {"ids": ["a"], "pattern": "a"}}, "exactly one of"),
    "neither": ({"streams": {}}, "exactly one of"),
    "a stream twice": ({"streams": {"ids": ["a", "a"]}}, "names a stream twice"),
    "an unknown strategy": ({"updateStrategy": "Now"}, "updateStrategy"),
    "another kind": ({"applicationRef": {"name": "a", "kind": "Job"}}, "kind"),
    "a secret without servers": (
        {"secrets": [{"cluster": "e", "name": "s", "allowedServers": []}]},
        "allowedServers",
    ),
    "a server with a port that is too large": (
        {"secrets": [{"cluster": "e", "name": "s", "allowedServers": ["e:65536"]}]},
        "allowedServers",
    ),
}


@pytest.mark.deep("a matrix of mistakes")
@pytest.mark.parametrize("what", SUBSCRIPTION_MISTAKES)
def test_the_api_server_refuses_a_subscription_with(what: str, stage: Stage, operator: OperatorProcess) -> None:
    change, message = SUBSCRIPTION_MISTAKES[what]
    with pytest.raises(ApiError) as refused:
        stage.subscription(**change)
    assert message in str(refused.value)


def test_a_subscription_cannot_change_its_application(stage: Stage, operator: OperatorProcess) -> None:
    stage.subscription()
    with pytest.raises(ApiError, match="cannot change its application"):
        stage.subscription(applicationRef={"name": "other"})


def test_a_name_that_is_no_label_is_refused(stage: Stage, operator: OperatorProcess) -> None:
    with pytest.raises(ApiError, match="at most 63 characters"):
        stage.subscription("a" * 64)


def test_kinds_that_are_installed_later_are_served(request: pytest.FixtureRequest) -> None:
    cluster_without_spark = KubeCluster("later")
    with kept_open(request.config, request.node.stash, [cluster_without_spark]):
        kube = cluster_without_spark.start()
        stage = Stage(kube, kube.new_namespace())
        with OperatorProcess(kube, stage.namespace).start():
            stage.stream("orders", cluster("east"))
            stage.subscription("first")
            stage.wait_document({"east/orders": "Active"})
            kube.install_crds(spark_operator_crds())
            stage.api.delete(SUBSCRIPTIONS, "first", stage.namespace)
            stage.api.delete(CONFIG_MAPS, "app-kafkastreams", stage.namespace)
            stage.application(annotations={STREAMS_ANNOTATION: "orders"})
            stage.wait_document({"east/orders": "Active"})


def test_an_annotated_application_gets_a_subscription(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    stage.stream("orders", cluster("east"))
    stage.stream("orders-eu", cluster("west"))
    stage.application(annotations={STREAMS_ANNOTATION: "orders"})
    stage.wait_document({"east/orders": "Active"})
    stage.application(annotations={PATTERN_ANNOTATION: "orders.*"})
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    stage.api.delete(APPLICATIONS, "app", stage.namespace)
    stage.wait_condition("ApplicationFound", "Orphaned")


def test_an_orphan_goes_after_its_retention(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    stage.stream("orders", cluster("east"))
    stage.application(annotations={STREAMS_ANNOTATION: "orders"})
    stage.wait_document({"east/orders": "Active"})
    change = {"spec": {"orphanRetention": "1s"}}
    stage.api.patch(SUBSCRIPTIONS, "app", stage.namespace, change)
    stage.api.delete(APPLICATIONS, "app", stage.namespace)
    stage.api.wait(SUBSCRIPTIONS, "app", stage.namespace, until=lambda subscription: subscription is None)
    stage.api.wait(CONFIG_MAPS, "app-kafkastreams", stage.namespace, until=lambda document: document is None)


LIST_FORM = """
- streamId: {stream}
  clusterMetadataList:
    - clusterId: {cluster}
      bootstrapServers: {cluster}:9092
      topics: [orders]
"""


def config_map(stage: Stage, name: str, **keys: str) -> None:
    """Apply a labelled ConfigMap."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": stage.namespace, "labels": {ROLE_LABEL: METADATA_ROLE}},
        "data": {key.replace("_", "."): value for key, value in keys.items()},
    }
    stage.api.apply(CONFIG_MAPS, manifest, force=True)


def test_a_labelled_configmap_is_metadata_unless_it_is_broken(stage: Stage, operator: OperatorProcess) -> None:
    config_map(stage, "flink", streams_yaml=LIST_FORM.format(stream="orders", cluster="east"))
    stage.subscription()
    stage.wait_document({"east/orders": "Active"})
    config_map(stage, "flink", streams_yaml="- streamId: orders\n  clusterMetadataLst: []\n")
    resolved = stage.wait_condition("StreamsResolved", "InvalidConfigMap")
    assert "clusterMetadataLst" in resolved["message"]
    assert "flink" in resolved["message"]
    stage.wait_document({"east/orders": "Active"})
    config_map(stage, "flink", streams_yaml=LIST_FORM.format(stream="orders", cluster="west"))
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})


def test_a_document_too_large_for_its_configmap_keeps_the_last(stage: Stage, operator: OperatorProcess) -> None:
    """Return topic names that hardly compress: some 250 KB per stream, packed."""
    stage.stream("orders", cluster("east"))
    stage.subscription(streams={"pattern": ".*"})
    before = stage.wait_document({"east/orders": "Active"})
    # The first document waits until all streams exist. Each of them alone would fit.
    names = [f"large{number}" for number in range(5)]
    stage.subscription(streams={"pattern": ".*"}, pause={"reason": "many at once"})
    for name in names:
        stage.stream(name, *[cluster(f"c{n}", *[secrets.token_hex(124) for _ in range(256)]) for n in range(8)])
    stage.subscription(streams={"pattern": ".*"})
    resolved = stage.wait_condition("StreamsResolved", "TooLarge")
    assert "Split the streams" in resolved["message"]
    assert stage.document() == before
    for name in names[:2]:
        stage.api.delete(STREAMS, name, stage.namespace)
    stage.wait_condition("StreamsResolved", "Resolved")
    document = stage.document()
    assert document is not None
    assert set(document.streams) == {"orders", *names[2:]}


def test_a_kafkastream_wins_over_a_configmap_and_both_say_so(stage: Stage, operator: OperatorProcess) -> None:
    config_map(stage, "flink", streams_yaml=LIST_FORM.format(stream="orders", cluster="west"))
    stage.stream("orders", cluster("east"))
    stream = stage.api.wait(
        STREAMS, "orders", stage.namespace, until=lambda winner: condition(winner, "Ready").get("reason") == "Shadows"
    )
    assert "ConfigMap flink" in condition(stream, "Ready")["message"]
    stage.subscription()  # not before the operator has seen both: a document of `west` alone would drain it
    stage.wait_document({"east/orders": "Active"})
    note = "stream orders is read from KafkaStream orders, which takes precedence"
    wait_until(lambda: note in stage.kube.kubectl("get", "events", "-n", stage.namespace, "-o", "json"), "the event")


def test_two_streams_that_disagree_about_a_cluster_are_both_held(stage: Stage, operator: OperatorProcess) -> None:
    stage.stream("orders", cluster("east"))
    stage.stream("other", cluster("east", "other"))
    stage.subscription(streams={"ids": ["orders", "other"]})
    stage.wait_document({"east/orders": "Active", "east/other": "Active"})
    stage.stream("other", {"id": "east", "bootstrapServers": "elsewhere:9092", "topics": ["other"]})
    resolved = stage.wait_condition("StreamsResolved", "Conflict")
    assert "two commits" in resolved["message"]
    for name in ("orders", "other"):
        stage.api.wait(
            STREAMS, name, stage.namespace, until=lambda stream: condition(stream, "Ready").get("reason") == "Conflict"
        )
    stage.wait_document({"east/orders": "Active", "east/other": "Active"})


def test_a_secret_goes_only_to_the_servers_of_its_binding(stage: Stage, operator: OperatorProcess) -> None:
    binding = {"cluster": "east", "name": "login", "allowedServers": ["east:9092"]}
    stage.stream("orders", cluster("east", secretRef={"name": "login"}))
    stage.subscription(secrets=[binding])
    document = stage.wait_document({"east/orders": "Active"})
    assert document.streams["orders"]["clusters"]["east"]["secretFolder"] == "login"
    evil = {"id": "east", "bootstrapServers": "evil:9092", "topics": ["orders"], "secretRef": {"name": "login"}}
    stage.stream("orders", evil)
    resolved = stage.wait_condition("StreamsResolved", "ServerNotAllowed")
    assert "evil:9092" in resolved["message"]
    document = stage.wait_document({"east/orders": "Active"})
    assert document.streams["orders"]["clusters"]["east"]["bootstrapServers"] == "east:9092"


def test_a_stream_that_asks_for_another_secret_is_held(stage: Stage, operator: OperatorProcess) -> None:
    stage.stream("orders", cluster("west"))
    stage.subscription()
    stage.wait_document({"west/orders": "Active"})
    stage.stream("orders", cluster("east", secretRef={"name": "somebody-elses"}), cluster("west"), cluster("north"))
    stage.wait_condition("StreamsResolved", "SecretNotBound")
    stage.wait_document({"north/orders": "Active", "west/orders": "Active"})


def test_the_operator_may_read_no_secret(kube: KubeCluster, stage: Stage, operator: OperatorProcess) -> None:
    account = kube.client(operator.kubeconfig)
    with pytest.raises(ApiError, match="forbidden"):
        account.list("v1/secrets", stage.namespace)


def test_a_bad_stream_holds_up_no_other(stage: Stage, operator: OperatorProcess) -> None:
    stage.stream("orders", cluster("east"))
    stage.stream("bad", cluster("west", startingOffsets={"nonsense": "yes"}))
    stage.subscription(streams={"pattern": ".*"})
    resolved = stage.wait_condition("StreamsResolved", "InvalidStream")
    assert "startingOffsets" in resolved["message"]
    stage.wait_document({"east/orders": "Active"})
