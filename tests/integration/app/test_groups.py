"""Offsets of consumer groups on real brokers, where a coordinator is new, moves or hangs."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import ClusterUnreachableError
from dynamic_kafka.kafka.groups import GroupClient
from tests.support.fixtures import FreshCluster

pytestmark = pytest.mark.deep("coordinators that restart")


def test_a_new_clusters_group_works_while_its_coordinator_loads(
    fresh_cluster: FreshCluster,
) -> None:
    # librdkafka's admin client ended the process here, now and then: the first answers are NOT_COORDINATOR.
    at = fresh_cluster("groups")
    at.create_topic("t", partitions=2)
    for number in range(5):
        client = GroupClient("east", f"g{number}", at.client_properties(), deadline_s=20)
        assert client.committed([("t", 0), ("t", 1)]) == {}
        client.commit({("t", 0): 5}, "mark")
        assert client.committed([("t", 0), ("t", 1)]) == {("t", 0): (5, "mark")}
        client.close_in_background()


def test_a_commit_survives_a_restart_of_the_coordinator(
    fresh_cluster: FreshCluster,
) -> None:
    at = fresh_cluster("groups")
    at.create_topic("t")
    client = GroupClient("east", "g", at.client_properties(), deadline_s=4)
    client.commit({("t", 0): 1}, "")
    at.restart()
    client.commit({("t", 0): 2}, "")
    at.pause()
    with pytest.raises(ClusterUnreachableError, match="east"):
        client.commit({("t", 0): 3}, "")
    at.resume()
    client.commit({("t", 0): 4}, "")
    assert client.committed([("t", 0)])["t", 0][0] == 4
    client.close_in_background()
