"""Options that are refused by name and with advice, before a record is read; options that never reach a client."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dynamic_kafka import register
from dynamic_kafka.driver.cluster_clients import client_of
from dynamic_kafka.errors import DynamicKafkaError, OptionError
from dynamic_kafka.metadata.document import parse_document
from dynamic_kafka.metadata.subscription import unite
from dynamic_kafka.options import parse_options
from dynamic_kafka.options.index import OPTIONS
from tests.integration.source.simulated_spark import Query, at, document, numbered, query, static
from tests.support.fixtures import Brokers

NOWHERE = {"bootstrapServers": "127.0.0.1:1", "topics": ["t"]}
GOOD = static(document(east=NOWHERE))


def refusal(options: dict[str, str]) -> str:
    """Return the error's text; no cluster may have been asked."""
    with pytest.raises(OptionError) as raised:
        Query(options)
    return str(raised.value)


@pytest.mark.scenario(42)
def test_ids_and_a_pattern_exclude_each_other() -> None:
    message = refusal({**GOOD, "streamPattern": "orders.*"})

    assert "'streamIds'" in message and "'streamPattern'" in message
    assert "keep one" in message


@pytest.mark.scenario(42)
def test_streams_have_to_be_chosen() -> None:
    options = dict(GOOD)
    del options["streamIds"]

    message = refusal(options)

    assert "no streams are chosen" in message
    assert "streamPattern" in message and "subscribePattern" in message


@pytest.mark.scenario(42)
@pytest.mark.parametrize("option", ["removedClusterRetention", "metadataFailureThreshold", "metadataDiscoveryInterval"])
def test_negative_settings(option: str) -> None:
    message = refusal({**GOOD, option: "-1"})

    assert f"option '{option}' is '-1'" in message


@pytest.mark.scenario(42)
def test_commits_without_a_group() -> None:
    assert "kafka.group.id" in refusal({**GOOD, "commitOffsets": "true"})


def test_options_that_need_a_state_location_are_refused() -> None:
    assert "stateLocation" in refusal({**GOOD, "clusterFailurePolicy": "stall"})
    assert "stateLocation" in refusal({**GOOD, "pendingRemovedRanges": "filter"})


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    assert "did you mean 'maxOffsetsPerTrigger'" in refusal({**GOOD, "maxOffsetPerTriggers": "5"})


@pytest.mark.parametrize("key", ["auto.offset.reset", "enable.auto.commit", "key.deserializer", "interceptor.classes"])
def test_options_that_sparks_source_forbids_are_refused(key: str) -> None:
    assert key in refusal({**GOOD, f"kafka.{key}": "x"})


@pytest.mark.parametrize(
    "properties", [{"plugin.library.paths": "/tmp/x.so"}, {"sasl.password": "p"}, {"ssl.ca.location": "/etc/passwd"}]
)
def test_metadata_may_not_set_unsafe_client_properties(properties: dict[str, str]) -> None:
    options = static(document(east=NOWHERE | {"properties": properties}))

    with query(options) as reading, pytest.raises(DynamicKafkaError) as raised:
        reading.plan()

    assert next(iter(properties)) in str(raised.value)
    assert "streams.orders.clusters.east.properties" in str(raised.value)


@pytest.mark.scenario(21)
def test_the_sources_options_reach_no_client(tmp_path: Path) -> None:
    # Given every option of the source that a stream may set, and one option for the client
    given = {
        **GOOD,
        "removedClusterRetention": "3d",
        "stream-metadata-removed-cluster-retention-ms": "259200000",
        "metadataDiscoveryInterval": "5s",
        "metadataFailureThreshold": "3",
        "partitionDiscoveryInterval": "7s",
        "clusterFailurePolicy": "stall",
        "readTimeout": "9s",
        "stateLocation": str(tmp_path),
        "commitOffsets": "false",
        "maxOffsetsPerTrigger": "100",
        "includeHeaders": "true",
        "properties.partition.discovery.interval.ms": "7000",
        "kafka.fetch.min.bytes": "2",
    }
    options = parse_options(given, mode="streaming")
    subscription = unite(parse_document(given["metadataDocument"], source="inline").streams.values())

    # When clients are made of them
    client = client_of(options, subscription, "east")
    configs = [client.consumer_config(), client.admin_config()]

    # Then the clients get only Kafka's properties, which librdkafka accepts
    names = {name.lower() for name in OPTIONS} | {alias for option in OPTIONS.values() for alias in option.aliases}
    for config in configs:
        assert not {key for key in config if key.lower() in names}
        assert not {key for key in config if "retention" in key or "discovery" in key}
    assert configs[0]["fetch.min.bytes"] == "2"
    Consumer(configs[0]).close()


def test_a_clusters_properties_override_the_common_ones(brokers: Brokers, topic: object) -> None:
    # Given a common setting that makes reading impossible, and a right one for one cluster
    name = brokers.a.create_topic(topic("orders"))  # type: ignore[operator]
    brokers.a.produce(name, numbered(3))
    text = document(east=at(brokers.a, name, properties={"security.protocol": "plaintext"}))
    options = static(text, startingOffsets="earliest", kafka__security__protocol="ssl", readTimeout="3s")

    with query(options) as reading:
        rows = reading.batch()

    assert len(rows) == 3


@pytest.mark.parametrize("way", ["readStream", "read"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "earlyest"}, "startingOffsets"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "minOffsetsPerTrigger"),
        ({"kafka.sasl.password": "hunter2"}, "kafka.sasl.password"),
    ],
)
def test_spark_refuses_wrong_options_before_a_plan(
    spark: SparkSession, way: str, options: dict[str, str], message: str
) -> None:
    register(spark)

    with pytest.raises(PySparkException) as raised:
        getattr(spark, way).format("dynamic-kafka").options(**GOOD, **options).load()

    assert message in str(raised.value)
    assert "hunter2" not in str(raised.value)
