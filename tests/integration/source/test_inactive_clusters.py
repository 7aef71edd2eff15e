"""Clusters that hang when metadata no longer calls them active: the query goes on without them, under `fail` too."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from dynamic_kafka.driver.status import NOT_ACTIVE
from dynamic_kafka.metadata import ClusterMetadata, KafkaMetadataService, KafkaStream
from tests.integration.source.failing_clusters import reading, saved_amendments
from tests.support.fixtures import Brokers
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun
from tests.support.streams import produce, write_text

pytestmark = pytest.mark.deep("clusters that leave a service")


class LateService(KafkaMetadataService):
    """A service whose first lookup names all clusters of a file, and later ones the clusters of `later` alone.

    A cluster in `denied` is not active.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._file = Path(options["metadataService.file"])
        self._asked = False

    def get_all_streams(self) -> list[KafkaStream]:
        known = json.loads(self._file.read_text())
        names = known["later"] if self._asked else known["servers"]
        self._asked = True
        clusters = {
            name: ClusterMetadata((known["topic"],), {"bootstrap.servers": known["servers"][name]}) for name in names
        }
        return [KafkaStream("orders", clusters)]

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        return {stream.stream_id: stream for stream in self.get_all_streams() if stream.stream_id in stream_ids}

    def is_cluster_active(self, cluster_id: str) -> bool:
        return cluster_id not in json.loads(self._file.read_text())["denied"]


def named(file: Path, brokers: Brokers, topic: str, *, later: str = "as", denied: str = "") -> None:
    """Write the file of the service; clusters have one letter."""
    servers = {"a": brokers.a.bootstrap, "s": brokers.c.bootstrap}
    content = {"topic": topic, "servers": servers, "later": list(later), "denied": list(denied)}
    write_text(file, json.dumps(content))


@pytest.fixture
def run(brokers: Brokers, orders: str, path: Path) -> Iterator[SourceRun]:
    """Yield a query on both clusters whose metadata is looked up at its start, and then when it is asked."""
    named(path, brokers, orders)
    service = {"metadataService": f"{__name__}:LateService", "metadataService.file": path, "metadataPath": None}
    with reading(path, metadataDiscoveryInterval="1h", **service) as made:
        yield made


@pytest.mark.parametrize("pending", [False, True], ids=["in a plan", "in a replay"])
def test_a_cluster_that_left_meanwhile_does_not_end_the_query(
    run: SourceRun, brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path, *, pending: bool
) -> None:
    # Given a query that has read two clusters, and a start at which one of them hangs
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    run.batch(crash="logged" if pending else None)
    run.restart()
    shaky.pause()

    # When metadata has left that cluster out since the first lookup of the start
    named(path, brokers, orders, later="a")
    run.until(lambda: run.parked == {("s", orders): {0: 0 if pending else 6}}, "the cluster to be parked")
    run.until_rows(of_a if pending else of_a + of_s)
    assert [reasons for _, reasons in saved_amendments(path)] == ([{"s": "removed"}] if pending else [])

    # And when it is back, then it is read on where it stopped
    shaky.resume()
    named(path, brokers, orders)
    more = produce("s", shaky, orders, 2)
    run.restart()
    run.until_rows(of_a + of_s + more)


def test_a_cluster_that_the_service_denies_ends_no_query(
    run: SourceRun, brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    # Given a start at which a cluster hangs that metadata names, and that the service calls inactive
    wanted = produce("a", brokers.a, orders, 5) + produce("s", shaky, orders, 6)
    run.until_rows(wanted)
    run.restart()
    shaky.pause()
    named(path, brokers, orders, denied="s")

    # Then the query reads the other one, and reports the cause
    wanted += produce("a", brokers.a, orders, 2)
    run.until_rows(wanted)
    assert NOT_ACTIVE in run.report()["clusters"]["s"]["stalled"]
    assert run.next == {("a", orders): {0: 7}, ("s", orders): {0: 6}}

    # And when the cluster answers, then it is read on
    shaky.resume()
    wanted += produce("s", shaky, orders, 2)
    run.until_rows(wanted)
