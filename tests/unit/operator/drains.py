"""Parts of the stories of drains: an application that has to drain a cluster, and the evidence that it is drained."""

from __future__ import annotations

from kafkastream_operator.core.drain_evidence import TopicReport
from tests.unit.operator.world import World, cluster, running

DRAINED = TopicReport(lag=0, quiet_s=400)


def removed(**drain: str) -> World:
    """Return an application on east and west, after east was removed and before the driver has that revision."""
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west"), **drain).settle()
    world.driver_reports().settle()
    world.stream("orders", cluster("west"), **drain).settle()
    return world
