"""Numbers that Java's client accepts: a job with one runs on Spark's `kafka` source, and has to run on this one."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.kafka.config_checks import check_client_properties
from dynamic_kafka.options import parse_options, translate_java


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fetch.max.bytes", "2147483647"),
        ("max.partition.fetch.bytes", "2147483647"),
        ("connections.max.idle.ms", "-1"),
        ("request.timeout.ms", "600000"),
        ("max.poll.interval.ms", "5000"),
        ("fetch.max.bytes", "10"),
    ],
)
def test_a_number_for_java_is_fitted_to_librdkafka(key: str, value: str) -> None:
    options = parse_options(
        {"kafka.bootstrap.servers": "h:1", "subscribe": "t", f"kafka.{key}": value}, mode="streaming"
    )
    check_client_properties(options.kafka_properties)
    client = ClusterClient("default", options.kafka_properties, {"bootstrap.servers": "127.0.0.1:1"})

    Consumer(client.consumer_config())


@pytest.mark.parametrize(
    ("given", "fitted", "warning"),
    [
        ({"fetch.max.bytes": "2147483647"}, {"fetch.max.bytes": "2147483135"}, "'fetch.max.bytes'"),
        ({"fetch.max.bytes": "10"}, {"fetch.max.bytes": "1000"}, "1000 is used"),
        ({"request.timeout.ms": "600000"}, {"socket.timeout.ms": "300000"}, "'request.timeout.ms'"),
        ({"connections.max.idle.ms": "-1"}, {"connections.max.idle.ms": "0"}, "0 is used"),
        ({"max.poll.interval.ms": "5000"}, {"max.poll.interval.ms": "5000", "session.timeout.ms": "5000"}, ""),
        (
            {"max.poll.interval.ms": "5000", "session.timeout.ms": "6000"},
            {"max.poll.interval.ms": "5000", "session.timeout.ms": "5000"},
            "'session.timeout.ms' is longer",
        ),
        ({"fetch.max.bytes": "5000"}, {"fetch.max.bytes": "5000"}, ""),
        ({"fetch.max.bytes": "-1"}, {"fetch.max.bytes": "-1"}, ""),  # Java refuses it, too
        ({"fetch.max.bytes": "many"}, {"fetch.max.bytes": "many"}, ""),
    ],
)
def test_a_fitted_number_is_a_warning(given: dict[str, str], fitted: dict[str, str], warning: str) -> None:
    options = parse_options(
        {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **{f"kafka.{key}": value for key, value in given.items()}},
        mode="streaming",
    )
    assert {key: value for key, value in options.kafka_properties.items() if key != "bootstrap.servers"} == fitted
    assert len(options.warnings) == bool(warning)
    assert warning in "".join(options.warnings)


def test_a_cluster_s_own_properties_are_not_fitted() -> None:
    assert translate_java({"fetch.max.bytes": "10"}, "cluster 'east'") == {"fetch.max.bytes": "10"}
