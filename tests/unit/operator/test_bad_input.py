"""Mistakes of users, drivers and other tools: each is reported where it belongs, and stops nothing else."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from pydantic import ValidationError

from dynamic_kafka.contract.kubernetes_names import PATTERN_ANNOTATION, STRATEGY_ANNOTATION, STREAMS_ANNOTATION
from kafkastream_operator.core.annotated import requested_subscription
from kafkastream_operator.core.drain_evidence import Report, TopicReport
from kafkastream_operator.models.subscription import KUBEFLOW, SecretBinding
from tests.unit.operator.world import World, cluster, running

FLINKS = """
- streamId: {stream}
  clusterMetadataList:
    - bootstrapServers: {servers}
      topics: [orders]
"""


def from_flink(stream: str, servers: str, **spec: object) -> World:
    """Return an application on a stream of a ConfigMap, whose cluster has no id of its own."""
    world = World(spec={"updateStrategy": "Reload", **spec})
    world.config_maps["flink"] = FLINKS.format(stream=stream, servers=servers)
    world.application_is("Starting").settle()
    world.driver_starts().settle()
    return world


def test_a_cluster_named_by_its_servers_drains() -> None:
    world = from_flink("orders", "e1:9092,e2:9092")
    world.config_maps["flink"] = FLINKS.format(stream="orders", servers="w1:9092")
    world.settle()
    assert world.rendered() == {"e1:9092,e2:9092/orders": "Draining", "w1:9092/orders": "Active"}
    assert [drain.cluster for drain in world.status.draining] == ["e1:9092,e2:9092"]


def test_a_cluster_named_by_its_servers_can_get_an_id() -> None:
    servers = "e1:9092,e2:9092"
    world = from_flink("orders", servers)
    world.stream("orders", cluster("east", bootstrapServers=servers, renamedFrom=servers)).settle()
    assert world.rendered() == {"east/orders": "Active"}
    # The KafkaStream wins over the ConfigMap, which can be deleted then.
    world.config_maps.clear()
    world.settle()
    assert world.rendered() == {"east/orders": "Active"}


def test_a_stream_with_a_space_in_its_name_drains() -> None:
    world = from_flink("all orders", "e1:9092", streams={"pattern": ".*"})
    world.config_maps.clear()
    world.settle()
    assert world.rendered() == {"e1:9092/orders": "Draining"}
    assert [drain.stream for drain in world.status.draining] == ["all orders"]


@pytest.mark.parametrize("name", ["my.login", "a" * 57, "Login", "-login"])
def test_a_secret_name_that_spark_cannot_mount_is_refused(name: str) -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west", secretRef={"name": name})).settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", "InvalidStream")
    assert "secretRef.name" in world.message("StreamsResolved")
    binding = {"cluster": "west", "name": name, "allowedServers": ["west:9092"]}
    with pytest.raises(ValidationError, match="name"):
        SecretBinding.model_validate(binding)
    assert SecretBinding.model_validate({**binding, "name": "a" * 56})


@pytest.mark.parametrize("duration", ["99999999999999d", "10000d", "5 minutes", "-1s", ""])
def test_a_stream_with_an_invalid_duration_is_held(duration: str) -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west"), quietPeriod=duration).settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", "InvalidStream")
    assert "quietPeriod" in world.message("StreamsResolved")


def test_too_large_a_document_leaves_the_last_one_in_force() -> None:
    world = running(updateStrategy="Reload")
    before = world.document
    # These names compress badly.
    names = [hashlib.sha512(str(number).encode()).hexdigest() for number in range(63 * 250)]
    many = [cluster(f"c{n}", *names[250 * n : 250 * (n + 1)]) for n in range(63)]
    world.stream("orders", cluster("east"), *many).settle()
    assert world.document == before
    assert world.condition("StreamsResolved") == ("False", "TooLarge")
    assert "document that fitted" in world.message("Stalled")


@pytest.mark.parametrize(
    ("streams", "reason"), [({"ids": ["orders"]}, "StreamMissing"), ({"pattern": "ord.*"}, "NothingMatches")]
)
def test_a_missing_stream_names_the_unreadable_configmap(streams: dict[str, Any], reason: str) -> None:
    world = World(spec={"streams": streams})
    world.config_maps["flink"] = "- streamId: orders\n  clusterMetadataLst: []\n"
    world.settle()
    assert world.document is None
    assert world.condition("StreamsResolved") == ("False", reason)
    assert re.search(r"may be in .*: ConfigMap flink, key streams\.yaml:2", world.message("Ready"))


def test_an_invalid_pattern_changes_nothing() -> None:
    world = running(streams={"pattern": "orders"}, updateStrategy="Reload")
    world.spec["streams"] = {"pattern": "orders("}
    world.settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", "InvalidSubscription")
    assert "no regular expression" in world.message("Ready")


@pytest.mark.parametrize(
    "pattern", [r"(orders)\1", "(?=orders).*", "(?<!x)orders", "(?>orders)", "o++", "o{,3}", "[[:alpha:]]"]
)
def test_a_pattern_that_needs_backtracking_is_refused(pattern: str) -> None:
    world = running(streams={"pattern": "orders"}, updateStrategy="Reload")
    world.spec["streams"] = {"pattern": pattern}
    world.settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", "InvalidSubscription")
    assert world.message("Ready").startswith(f"spec.streams.pattern {pattern!r} cannot be used: ")
    assert "patterns are RE2's" in world.message("Ready")
    asked = requested_subscription("app", KUBEFLOW, {PATTERN_ANNOTATION: pattern})
    assert asked is not None
    assert asked.problem.startswith(f"{PATTERN_ANNOTATION} {pattern!r} cannot be used: ")


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*a){20}", "(a?){40}a{40}c", "(([a-z])+.)+[A-Z]([a-z])+$"])
def test_catastrophic_backtracking_delays_nobody(pattern: str) -> None:
    world = running(streams={"pattern": "orders"}, updateStrategy="Reload")
    for number in range(20):
        world.stream("a" * 200 + str(number), cluster("west"))
    world.spec["streams"] = {"pattern": f"orders|{pattern}"}
    world.settle()  # with backtracking, it would not end
    assert world.rendered()["east/orders"] == "Active"


def test_a_pattern_that_only_re2_accepts_is_refused() -> None:
    world = World(spec={"streams": {"pattern": r"\pN"}})
    world.settle()
    assert "no regular expression" in world.message("Ready")


ANNOTATIONS = {
    "one letter less": ({"kafkastream.dev/stream": "a"}, f"if you mean {STREAMS_ANNOTATION}, write that"),
    "another group": ({"kafkastreams.dev/streams": "a"}, f"if you mean {STREAMS_ANNOTATION}, write that"),
    "half of it": ({"kafkastream.dev/pattern": "a"}, f"if you mean {PATTERN_ANNOTATION}, write that"),
    "both": ({STREAMS_ANNOTATION: "a", PATTERN_ANNOTATION: "a"}, "not both"),
    "a strategy alone": ({STRATEGY_ANNOTATION: "Auto"}, "alone does nothing"),
    "an unknown strategy": ({STREAMS_ANNOTATION: "a", STRATEGY_ANNOTATION: "Now"}, "must be Restart, Reload, Auto"),
    "no names": ({STREAMS_ANNOTATION: " , "}, "names no stream"),
    "a name with a space": ({STREAMS_ANNOTATION: "a b"}, STREAMS_ANNOTATION),
    "too many names": ({STREAMS_ANNOTATION: ",".join(map(str, range(257)))}, STREAMS_ANNOTATION),
    "a pattern that is none": ({PATTERN_ANNOTATION: "("}, "no regular expression"),
    "a pattern that is too long": ({PATTERN_ANNOTATION: "a" * 513}, PATTERN_ANNOTATION),
}


@pytest.mark.parametrize("what", ANNOTATIONS)
def test_wrong_annotations_are_a_problem(what: str) -> None:
    annotations, problem = ANNOTATIONS[what]
    asked = requested_subscription("app", KUBEFLOW, annotations)
    assert asked is not None
    assert asked.spec is None
    assert problem in asked.problem


def test_right_annotations_ask_for_a_subscription() -> None:
    asked = requested_subscription("app", KUBEFLOW, {STREAMS_ANNOTATION: "a; b,a", STRATEGY_ANNOTATION: "Reload"})
    assert asked is not None
    assert asked.spec is not None
    assert (asked.spec.streams.ids, asked.spec.update_strategy) == (("a", "b"), "Reload")
    for other in ("other", "kafkastream.dev/owner", "kubectl.kubernetes.io/last-applied-configuration"):
        assert requested_subscription("app", KUBEFLOW, {other: "x"}) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        '"text"',
        '{"contract": Infinity}',
        '{"draining": [{"cluster": "east", "topic": "orders", "lag": 1e999}]}',
        '{"draining": [{"cluster": "east"}]}',
        '{"rejected": "everything"}',
        "[" * 200_000,
    ],
    ids=lambda text: text[:40],
)
def test_a_malformed_report_counts_as_none(text: str) -> None:
    assert Report.parse(text) is None


@pytest.mark.parametrize("streams", ['"x"', "[1]", '{"orders": 1}', '{"orders": {"clusters": {"e": {"topics": 1}}}}'])
def test_malformed_streams_of_a_report_are_dropped(streams: str) -> None:
    report = Report.parse(f'{{"reader": 3, "streams": {streams}}}')
    assert report is not None
    assert (report.reader, report.streams) == (3, None)


def test_a_quiet_time_of_nan_is_no_evidence() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west")).settle()
    world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=float("nan"))).settle()
    assert world.rendered()["east/orders"] == "Draining"
