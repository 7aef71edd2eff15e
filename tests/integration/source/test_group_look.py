"""The look at a new cluster's consumer group, when that cluster hangs just then."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import GroupInUseError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.commits import CommitMark
from dynamic_kafka.kafka.groups import GroupClient
from tests.support.fixtures import Brokers, FreshCluster
from tests.support.kafka import KafkaCluster
from tests.support.source_run import reading
from tests.support.streams import cluster, produce, stream, write_metadata

READ_TIMEOUT_S = 30.0
"""The default: how long the look itself may take."""


@pytest.fixture
def west(fresh_cluster: FreshCluster, orders: str, monkeypatch: pytest.MonkeyPatch) -> KafkaCluster:
    """A cluster with an empty topic `orders` that hangs when it is asked for its group, which another query has."""
    made = fresh_cluster("west")
    made.create_topic(orders)
    committed = ClusterAdmin.committed

    def hangs(admin: ClusterAdmin, *args: Any, **more: Any) -> Any:
        if admin.cluster == "west":
            other = GroupClient("west", orders, {"bootstrap.servers": made.bootstrap}, deadline_s=30)
            other.commit({(orders, 0): 0}, str(CommitMark("another", 1, time.time_ns() // 1_000_000)))
            other.close_in_background()
            made.pause()
        return committed(admin, *args, **more)

    monkeypatch.setattr(ClusterAdmin, "committed", hangs)
    return made


@pytest.mark.parametrize("policy", ["stall", "fail"])
def test_a_new_cluster_that_hangs_holds_up_no_other_and_its_group_is_looked_at_when_it_answers(
    brokers: Brokers, orders: str, west: KafkaCluster, path: Path, policy: str
) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    group = {"kafka.group.id": orders, "commitOffsets": True, "clusterFailurePolicy": policy}
    with reading(path, **group) as run:
        run.until_rows(wanted)

        # When it joins, then the others are read on meanwhile
        write_metadata(path, stream("orders", cluster("east", brokers.a, [orders]), cluster("west", west, [orders])))
        wanted += produce("east", brokers.a, orders, 5)
        began = time.monotonic()
        run.until(lambda: ("west", orders) in run.next, "west")
        run.until_rows(wanted)
        assert time.monotonic() - began < READ_TIMEOUT_S / 2

        # And what it says in the end counts
        west.resume()
        with pytest.raises(GroupInUseError, match="query another commits to consumer group"):
            run.until(lambda: False, "the group")
