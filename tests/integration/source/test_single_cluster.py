"""A single cluster whose topics are the streams, chosen by ids, a pattern or a user's class."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dynamic_kafka.metadata import KafkaMetadataService, KafkaStream, KafkaStreamSubscriber
from tests.support.fixtures import Brokers, Topic
from tests.support.source_run import DEADLINE_S, SourceRun
from tests.support.streams import produce
from tests.support.waiting import wait_until


class Suffixed(KafkaStreamSubscriber):
    """A subscriber to streams by the end of their ids, which an option sets."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._suffix = options["streamSubscriber.suffix"]

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        return [stream for stream in service.get_all_streams() if stream.stream_id.endswith(self._suffix)]


def chosen_by(way: str, prefix: str) -> dict[str, str]:
    """Return options that choose the streams `<prefix>-read` and `<prefix>-late-read`, but not `<prefix>-other`."""
    return {
        "streamIds": {"streamIds": f"{prefix}-read;{prefix}-late-read"},
        "streamPattern": {"streamPattern": f"{prefix}-.*read"},
        "streamSubscriber": {
            "streamSubscriber": f"{__name__}:Suffixed",
            "streamSubscriber.suffix": f"{prefix}-read",
        },
    }[way]


@pytest.mark.parametrize("way", ["streamIds", "streamPattern", "streamSubscriber"])
def test_the_topics_of_a_single_cluster_are_streams(brokers: Brokers, topic: Topic, way: str) -> None:
    # Given two topics to read, and one to skip
    prefix = topic("single")
    names = [f"{prefix}-read", f"{prefix}-other"]
    if way == "streamIds":
        names.append(f"{prefix}-late-read")
    for name in names:
        brokers.a.create_topic(name)
    wanted = produce("default", brokers.a, f"{prefix}-read", 5)
    produce("default", brokers.a, f"{prefix}-other", 5)

    options = {"metadataService": "single-cluster", "kafka.bootstrap.servers": brokers.a.bootstrap}
    with SourceRun(**options, **chosen_by(way, prefix)) as run:
        run.until_rows(wanted)
        if way == "streamIds":
            wanted += produce("default", brokers.a, f"{prefix}-late-read", 4)
        if way == "streamPattern":
            # When another matching topic is created
            brokers.a.create_topic(f"{prefix}-late-read")
            wanted += produce("default", brokers.a, f"{prefix}-late-read", 4)
        run.until_rows(wanted)

        # Then each topic is a stream of its name, and a restart continues at the saved offsets
        run.restart()
        wanted += produce("default", brokers.a, f"{prefix}-read", 3)
        run.until_rows(wanted)
        topics = run.document.clusters["default"].topics
        assert {name: progress.stream for name, progress in topics.items()} == {name: name for name in topics}
        assert f"{prefix}-other" not in topics


def test_a_topic_deleted_under_a_pattern_is_parked(brokers: Brokers, topic: Topic) -> None:
    # Given Spark's own options, and two topics that match
    prefix = topic("single")
    gone, kept = (brokers.a.create_topic(f"{prefix}-{name}") for name in ("gone", "kept"))
    wanted = produce("default", brokers.a, gone, 5) + produce("default", brokers.a, kept, 5)
    options = {"kafka.bootstrap.servers": brokers.a.bootstrap, "subscribePattern": f"{prefix}-.*"}
    with SourceRun(**options) as run:
        run.until_rows(wanted)

        # When one is deleted, and no longer listed before the next plan
        looked_up = run.enumerator.observer.in_force().sequence
        brokers.a.delete_topic(gone)
        discovery = run.enumerator.observer._discovery
        assert discovery is not None
        wait_until(lambda: discovery.current().sequence != looked_up, "the listing without it", timeout_s=DEADLINE_S)

        # Then it is parked at its offset, and the query continues
        run.until(lambda: ("default", gone) in run.parked, "the parked topic")
        assert run.parked == {("default", gone): {0: 5}}
        wanted += produce("default", brokers.a, kept, 4)
        run.until_rows(wanted)
        assert run.next == {("default", kept): {0: 9}}


def test_a_single_cluster_that_gets_an_id_is_read_on(brokers: Brokers, topic: Topic) -> None:
    # Given a query on a single cluster, whose id is `default`
    name = brokers.a.create_topic(topic("named"))
    wanted = produce("default", brokers.a, name, 5)
    with SourceRun(subscribe=name, **{"kafka.bootstrap.servers": brokers.a.bootstrap}) as run:
        run.until_rows(wanted)

        # When it is started again with another id, and has records to read
        run.restart(**{"metadata-service.cluster-id": "cluster-0"})
        wanted += produce("cluster-0", brokers.a, name, 4)

        # Then it reads on at its offsets, and the rows have the new id
        run.until_rows(wanted)
        assert run.next == {("cluster-0", name): {0: 9}}
