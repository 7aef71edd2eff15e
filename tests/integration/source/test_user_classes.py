"""A user's own metadata service and subscriber, from their options to the rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from dynamic_kafka.metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSubscriber,
)
from tests.support.fixtures import Brokers, Topic
from tests.support.source_run import SourceRun
from tests.support.streams import produce, start_query, write_text
from tests.support.waiting import wait_until


class RegistryService(KafkaMetadataService):
    """A service over a user's registry of the form {stream: {cluster: {"servers": …, "topic": …}}}."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._registry = Path(options["metadataService.registryFile"])

    def get_all_streams(self) -> list[KafkaStream]:
        return [
            KafkaStream(
                name,
                {
                    cluster: ClusterMetadata((entry["topic"],), {"bootstrap.servers": entry["servers"]})
                    for cluster, entry in clusters.items()
                },
            )
            for name, clusters in json.loads(self._registry.read_text()).items()
        ]

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        return {stream.stream_id: stream for stream in self.get_all_streams() if stream.stream_id in stream_ids}


class TeamSubscriber(KafkaStreamSubscriber):
    """A subscriber to the streams of one team: their ids begin with its name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._team = options["streamsubscriber.teamname"]

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        return [stream for stream in service.get_all_streams() if stream.stream_id.startswith(f"{self._team}.")]


def test_a_users_service_and_subscriber_choose_the_streams(brokers: Brokers, topic: Topic, tmp_path: Path) -> None:
    # Given a registry with a stream of team `Sales` and one of another team
    orders, returns, logs = topic("orders"), topic("returns"), topic("logs")
    brokers.a.create_topic(orders)
    brokers.b.create_topic(returns)
    brokers.a.create_topic(logs)
    known = {
        "Sales.orders": {"a": {"servers": brokers.a.bootstrap, "topic": orders}},
        "Ops.logs": {"a": {"servers": brokers.a.bootstrap, "topic": logs}},
    }
    registry = write_text(tmp_path / "Registry.json", json.dumps(known))
    wanted = produce("a", brokers.a, orders, 5)
    produce("a", brokers.a, logs, 5)

    with SourceRun(
        metadataService=f"{__name__}:RegistryService",
        streamSubscriber=f"{__name__}:TeamSubscriber",
        **{"metadataService.registryFile": registry, "streamSubscriber.teamName": "Sales"},
    ) as run:
        # When the query starts, then it reads only the team's stream: both classes got their options
        run.until_rows(wanted)

        # When another stream of the team is added, on another cluster
        known["Sales.returns"] = {"b": {"servers": brokers.b.bootstrap, "topic": returns}}
        write_text(registry, json.dumps(known))
        wanted += produce("b", brokers.b, returns, 4)

        # Then it is read, too, from its earliest record
        run.until_rows(wanted)


class ClosingService(RegistryService):
    """A service that leaves a file when it is closed."""

    def close(self) -> None:
        self._registry.with_name("closed").touch()


def test_a_users_service_is_closed_with_the_query(
    brokers: Brokers, topic: Topic, spark: SparkSession, tmp_path: Path
) -> None:
    # Given a query with a user's own service
    orders = brokers.a.create_topic(topic("orders"))
    sent = produce("east", brokers.a, orders, 3)
    entry = {"s": {"east": {"servers": brokers.a.bootstrap, "topic": orders}}}
    registry = write_text(tmp_path / "registry.json", json.dumps(entry))
    options = {
        "metadataService": f"{__name__}:ClosingService",
        "metadataService.registryFile": registry,
        "streamIds": "s",
        "startingOffsets": "earliest",
    }
    with start_query(spark, options, tmp_path) as query:
        query.wait_rows(sent)

    # When the query is stopped, then the service is closed
    wait_until((tmp_path / "closed").exists, "the service to be closed", timeout_s=10)
