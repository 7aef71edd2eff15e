"""Mistakes in the streams of a user's own service are named, and unambiguous values are accepted in any form."""

from __future__ import annotations

from typing import Any

import pytest

from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata import EARLIEST, LATEST, ClusterMetadata, KafkaStream, OffsetSpec
from dynamic_kafka.metadata.services.returned_streams import check_returned_streams
from tests.unit.metadata.fakes import Discoveries, FakeService, cluster, stream

SERVERS = {"bootstrap.servers": "e:1"}


def own(topics: Any = ("t",), properties: Any = SERVERS, **more: Any) -> KafkaStream:
    return KafkaStream("orders", {"east": ClusterMetadata(topics, properties, **more)})


def problems(streams: Any) -> tuple[str, ...]:
    with pytest.raises(MetadataInvalidError) as caught:
        check_returned_streams(streams, object())
    return caught.value.problems


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        (own(()), "topics", "must not be empty; name at least one"),
        (own("t"), "topics", "must be a tuple of topic names"),
        (own(None), "topics", "must be a tuple of topic names"),
        (own((1,)), "topics", "1 must be a text"),
        (own(("a b",)), "topics", "'a b' is no topic name"),
        (own(properties=None), "properties", "must be a mapping"),
        (own(properties=SERVERS | {"check.crcs": None}), "properties.check.crcs", "must be a text, a whole number"),
        (own(properties=SERVERS | {1: "x"}), "properties", "1 is no name of a property"),
        (own(starting_offsets="latst"), "starting_offsets", "must be earliest, latest, committed"),
        (own(starting_offsets={"x": {"0": 1}}), "starting_offsets.x", "is not among this cluster's topics"),
        (own(starting_offsets={"t": {0: -3}}), "starting_offsets.t.0", "must be an offset"),
        (own(starting_offsets={"timestamp": "noon"}), "starting_offsets.timestamp", "is no timestamp"),
        (own(starting_offsets=7), "starting_offsets", "must be earliest, latest, committed"),
        (own(starting_offsets=OffsetSpec("latst")), "starting_offsets", "not 'latst'"),  # type: ignore[arg-type]
        (own(starting_offsets=OffsetSpec("timestamp")), "starting_offsets", "timestamp_ms must be milliseconds"),
        (
            own(starting_offsets=OffsetSpec("explicit", offsets={"t": {"0": 1}})),  # type: ignore[dict-item]
            "starting_offsets",
            "offsets must be numbers by topic and partition",
        ),
        (own(stopping_offsets="earliest"), "stopping_offsets", "must be latest"),
        (own(stopping_offsets=EARLIEST), "stopping_offsets", "not 'earliest'"),
        (own(renamed_from="a b"), "renamed_from", "a cluster id has"),
        (own(secret_folder="../other"), "secret_folder", "must be the plain name of a folder"),
        (own(state="Gone"), "state", "must be Active or Announced or Draining"),
        (own(draining_topics="t"), "draining_topics", "must be a tuple of topic names"),
    ],
)
def test_each_problem_has_stream_cluster_and_field(given: KafkaStream, field: str, reason: str) -> None:
    (problem,) = problems([given])
    assert problem.startswith(f"stream 'orders', cluster 'east': {field}")
    assert reason in problem


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (KafkaStream("orders", None), "stream 'orders': clusters must be a mapping"),  # type: ignore[arg-type]
        (KafkaStream("orders", {"east": "e:1"}), "stream 'orders', cluster 'east': must be a ClusterMetadata"),  # type: ignore[dict-item]
        (KafkaStream("orders", {"a b": cluster("t")}), "stream 'orders', cluster 'a b': a cluster id has"),
        (KafkaStream("orders ", {}), "stream 'orders ': a stream id has"),
        (KafkaStream(7, {}), "stream 7: 7 must be a text"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_stream_is_reported(given: KafkaStream, reason: str) -> None:
    (problem,) = problems([given])
    assert problem.startswith(reason)


def test_all_problems_are_reported_without_property_values() -> None:
    reported = problems([own("t"), own((), {"sasl.password": b"hush"})])
    assert len(reported) == 3
    assert "hush" not in str(reported)


@pytest.mark.parametrize("given", [None, "orders", ["orders"], [stream(), None]])
def test_a_result_without_streams_is_refused(given: Any) -> None:
    assert problems(given) == ("object.get_subscribed_streams returned something other than KafkaStream objects",)


@pytest.mark.parametrize(
    ("given", "meaning"),
    [
        ("latest", LATEST),
        ({"timestamp": "1970-01-01T00:00:01Z"}, OffsetSpec("timestamp", timestamp_ms=1000)),
        ({"t": {"0": 42}}, OffsetSpec("explicit", offsets={"t": {0: 42}})),
        ({"t": {0: 42}}, OffsetSpec("explicit", offsets={"t": {0: 42}})),
        (EARLIEST, EARLIEST),
    ],
)
def test_offsets_may_be_written_as_in_a_document(given: Any, meaning: OffsetSpec) -> None:
    assert check_returned_streams([own(starting_offsets=given)], object()) == [own(starting_offsets=meaning)]


def test_property_values_and_topic_lists_are_normalised() -> None:
    given = own(["b", "a", "b"], SERVERS | {"fetch.min.bytes": 1, "check.crcs": False})
    assert check_returned_streams((kafka_stream for kafka_stream in (given,)), object()) == [
        own(("b", "a"), SERVERS | {"fetch.min.bytes": "1", "check.crcs": "false"})
    ]
    assert check_returned_streams([own({"b", "a"})], object()) == [own(("a", "b"))]


def test_streams_may_come_as_a_set() -> None:
    east, west = stream("east"), stream("west")
    assert sorted(entry.stream_id for entry in check_returned_streams({east, west, stream("east")}, object())) == [
        "east",
        "west",
    ]


def test_a_users_own_service_may_set_any_property() -> None:
    given = own(properties=SERVERS | {"sasl.oauthbearer.config": "x"})
    assert check_returned_streams([given], object()) == [given]


def test_while_running_the_last_good_one_stays_in_force(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, failure_threshold=0)

    service.set(own(()))
    discovery.refresh()

    assert discovery.current().sequence == 1
    assert "'east': topics must not be empty" in (discovery.status().rejected or "")
