"""What docs/operator.md says of a restore: the status lost, the rest put back in its order, costs no restart."""

from __future__ import annotations

from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.world import cluster, running


def test_an_application_that_starts_with_a_restored_document_is_not_restarted_for_it() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    world.application_is("Starting")
    world.driver = None
    world.settle()
    world.driver_starts()
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    # The rendered ConfigMap comes from the backup, the subscription without its status, the application as Git has it:
    # without the operator's keys. No pod of it is there yet: the first one mounts the newest document.
    world.status, world.driver = SubscriptionStatus(), None
    world.application_is("Starting", token="", attempt=0, uid="restored", submission="s0")
    patches = world.patches
    world.settle()
    assert world.patches == patches
