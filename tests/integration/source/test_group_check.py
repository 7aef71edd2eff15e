"""The check of a new cluster's consumer group, while that cluster hangs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import GroupInUseError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.commit_marks import CommitMark
from dynamic_kafka.kafka.groups import GroupClient
from tests.support.fixtures import Brokers
from tests.support.kafka import KafkaCluster
from tests.support.source_run import reading
from tests.support.streams import cluster, produce, stream, write_metadata

pytestmark = pytest.mark.deep("groups of clusters that hang")

READ_TIMEOUT_S = 30.0
"""The default, which also limits the check."""


@pytest.fixture
def west(shaky: KafkaCluster, orders: str, monkeypatch: pytest.MonkeyPatch) -> KafkaCluster:
    """Return a cluster that hangs when it is asked for its group, which another query uses."""
    committed = ClusterAdmin.committed

    def hangs(admin: ClusterAdmin, *args: Any, **more: Any) -> Any:
        if admin.cluster == "west":
            other = GroupClient("west", orders, {"bootstrap.servers": shaky.bootstrap}, deadline_s=30)
            other.commit({(orders, 0): 0}, str(CommitMark("another", 1, time.time_ns() // 1_000_000)))
            other.close_in_background()
            shaky.pause()
        return committed(admin, *args, **more)

    monkeypatch.setattr(ClusterAdmin, "committed", hangs)
    return shaky


@pytest.mark.parametrize("policy", ["stall", "fail"])
def test_a_hanging_new_clusters_group_is_checked_when_it_answers(
    brokers: Brokers, orders: str, west: KafkaCluster, path: Path, policy: str
) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    group = {"kafka.group.id": orders, "commitOffsets": True, "clusterFailurePolicy": policy}
    with reading(path, **group) as run:
        run.until_rows(wanted)

        # When it is added, then the others are read on meanwhile
        write_metadata(path, stream("orders", cluster("east", brokers.a, [orders]), cluster("west", west, [orders])))
        wanted += produce("east", brokers.a, orders, 5)
        began = time.monotonic()
        run.until(lambda: ("west", orders) in run.next, "west")
        run.until_rows(wanted)
        assert time.monotonic() - began < READ_TIMEOUT_S / 2

        # And its late answer is checked
        west.resume()
        with pytest.raises(GroupInUseError, match="query another uses group"):
            run.until(lambda: False, "the group")
