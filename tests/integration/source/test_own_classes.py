"""A metadata service and a subscriber of the user's own, from their options to the rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from dynamic_kafka.metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSubscriber,
)
from tests.support.fixtures import Brokers
from tests.support.source_run import SourceRun
from tests.support.streams import produce, start_query, write_text


class RegistryService(KafkaMetadataService):
    """Reads a registry of the form {stream: {cluster: {"servers": …, "topic": …}}}, as somebody's own might be."""

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
        return {each.stream_id: each for each in self.get_all_streams() if each.stream_id in stream_ids}


class TeamSubscriber(KafkaStreamSubscriber):
    """The streams of one team, whose name their ids begin with."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._team = options["streamsubscriber.teamname"]

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        return [each for each in service.get_all_streams() if each.stream_id.startswith(f"{self._team}.")]


def test_own_service_and_subscriber_choose_what_is_read_while_it_runs(
    brokers: Brokers, topic: Callable[[str], str], tmp_path: Path
) -> None:
    # Given a registry that only the service can read, with a stream of team `Sales` and one of another team
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
        # When it is read, then only the team's stream is: both classes got their own options
        run.until_rows(wanted)

        # When the team gets another stream, on another cluster
        known["Sales.returns"] = {"b": {"servers": brokers.b.bootstrap, "topic": returns}}
        write_text(registry, json.dumps(known))
        wanted += produce("b", brokers.b, returns, 4)

        # Then it is read too, from its earliest record
        run.until_rows(wanted)


class ClosingService(RegistryService):
    """Tells that it was closed."""

    def close(self) -> None:
        self._registry.with_name("closed").touch()


def test_own_service_is_closed_when_the_query_is_stopped(
    brokers: Brokers, topic: Callable[[str], str], spark: SparkSession, tmp_path: Path
) -> None:
    # Given a query that reads what a service of the user's own describes
    orders = topic("orders")
    brokers.a.create_topic(orders)
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

    # When it is stopped, then the service is closed
    deadline = time.monotonic() + 10.0
    while not (closed := (tmp_path / "closed").exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert closed
