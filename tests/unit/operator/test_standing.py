"""Whether a cluster may be shut down: only once no document has what its stream no longer names."""

from __future__ import annotations

from kafkastream_operator.core.catalog import make_catalog
from kafkastream_operator.core.evidence import TopicReport
from kafkastream_operator.core.moments import stamp
from kafkastream_operator.core.standing import Subscriber, stream_status
from kafkastream_operator.models.stream import KafkaStreamStatus
from tests.unit.operator.world import World, cluster, running


def status_of(world: World, stream: str = "orders") -> KafkaStreamStatus:
    """The stream's, as its own reconciliation would have it now, before or after the subscription's."""
    assert world.document is not None
    reader = Subscriber("app", "app", "Running", world.status, world.document.streams)
    catalog = make_catalog(world.streams, [])
    return stream_status(stream, catalog, [reader], KafkaStreamStatus(), generation=2, now=stamp(world.now))


def safe(world: World) -> tuple[str, str]:
    """Status and message of SafeToDecommission."""
    (found,) = [each for each in status_of(world).conditions if each.type == "SafeToDecommission"]
    return found.status, found.message


def test_a_removal_that_no_subscription_has_looked_at_yet_is_not_safe() -> None:
    world = running(updateStrategy="Reload")
    assert safe(world)[0] == "True"
    world.stream("orders", cluster("west"))
    status, message = safe(world)
    assert status == "False"
    assert "its document still has east/orders" in message
    assert [(each.id, each.state) for each in status_of(world).clusters] == [("west", "Active"), ("east", "Draining")]


def test_a_removal_that_a_pause_holds_back_is_not_safe() -> None:
    world = running(updateStrategy="Reload", pause={"reason": "freeze"})
    world.stream("orders", cluster("west"))
    world.settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert safe(world)[0] == "False"


def test_it_is_safe_once_it_is_drained() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west"))
    world.settle()
    status, message = safe(world)
    assert status == "False"
    assert "0 of 1 drained; waiting for app (Running, since 2026-11-01T00:00:00Z: " in message
    world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=400))
    world.settle()
    assert safe(world)[0] == "True"


def test_a_topic_that_was_removed_is_not_safe_either() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry"))
    world.settle()
    world.stream("orders", cluster("east", "orders"))
    assert safe(world)[0] == "False"


def test_a_cluster_that_was_renamed_needs_no_drain() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("new-east", renamedFrom="east"))
    assert safe(world)[0] == "True"


def test_nothing_is_safe_while_nobody_knows_what_the_stream_names() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west", startingOffsets="sometimes"))
    world.settle()
    assert safe(world)[0] == "False"
