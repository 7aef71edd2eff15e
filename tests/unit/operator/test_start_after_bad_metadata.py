"""An application that has failed for good by its document: another document starts it, once."""

from __future__ import annotations

from typing import Any

import pytest

from dynamic_kafka.contract.exit_codes import METADATA_MAY_CAUSE, ExitCode
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.rollout.restart import MAX_ATTEMPTS
from tests.unit.operator.world import World, cluster, running


def started(**spec: Any) -> World:
    """Return a world whose streams name another cluster since, and whose next driver starts."""
    world = running(**spec)
    world.stream("orders", cluster("east"), cluster("bad")).settle()
    world.driver = None
    return world.application_is("Starting", submission="s2").settle().later(minutes=2)  # a minute between restarts


def failed(code: int = ExitCode.METADATA, life: Life = "Failed", **spec: Any) -> World:
    """Return a world whose next driver has failed by the other cluster."""
    return fails(started(**spec), code, life).settle()


def fails(world: World, code: int, life: Life = "Failed") -> World:
    """End the driver as Kubeflow's operator reports it after its last attempt."""
    return world.application_is(life, failure=f"driver container failed with ExitCode: {code}, Reason: Error")


def correct(world: World) -> World:
    """Name the other cluster right."""
    return world.stream("orders", cluster("east"), cluster("good")).settle()


@pytest.mark.parametrize("strategy", ["Auto", "Restart"])
@pytest.mark.parametrize("code", sorted(METADATA_MAY_CAUSE))
def test_another_document_starts_the_application_once(code: int, strategy: str) -> None:
    world = failed(code, updateStrategy=strategy)
    assert world.condition("ApplicationFound") == ("True", "Failed")
    patches = world.patches
    correct(world)
    assert world.patches == patches + 1
    assert world.application is not None
    assert world.document is not None
    assert world.application.token == world.document.revision.token
    assert world.condition("ApplicationFound") == ("True", "Starting")
    assert "Its document has changed since: it is started again" in world.message("ApplicationFound")

    world.application_is("Starting", submission="s9").settle().driver_starts().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    assert world.patches == patches + 1


def test_a_driver_that_fails_again_is_not_started_again() -> None:
    world = correct(failed())
    patches = world.patches
    fails(world.application_is("Starting", submission="s9").settle(), ExitCode.METADATA).settle()
    world.later(hours=2).settle()
    assert world.patches == patches
    assert world.condition("ApplicationFound") == ("True", "Failed")
    # But a third document starts it
    world.stream("orders", cluster("east")).settle()
    assert world.patches == patches + 1


def test_a_start_that_was_given_up_is_not_promised() -> None:
    world = correct(failed())
    for _ in range(MAX_ATTEMPTS + 3):
        world.later(minutes=5).settle()
    assert world.condition("RolledOut") == ("False", "Stalled")
    assert world.condition("ApplicationFound") == ("True", "Failed")


@pytest.mark.parametrize(
    ("code", "life", "spec"),
    [
        (ExitCode.CONFIGURATION, "Failed", {}),
        (ExitCode.REFUSED, "Failed", {}),
        (ExitCode.QUERY, "Failed", {}),
        (ExitCode.MISSING_INTERNAL_TOPIC, "Failed", {}),
        (ExitCode.METADATA, "Failing", {}),
        (ExitCode.METADATA, "Failed", {"updateStrategy": "Reload"}),
        (ExitCode.METADATA, "Failed", {"pause": {"reason": "freeze"}}),
    ],
)
def test_nothing_else_starts_it(code: int, life: Life, spec: dict[str, Any]) -> None:
    world = failed(code, life)
    world.changes(**spec)
    correct(world).later(hours=2).settle()
    assert world.patches == 0


def test_an_application_that_does_not_return_by_itself_is_left() -> None:
    world = failed()
    world.application_is("Failed", restarts_itself=False)
    correct(world)
    assert world.patches == 0


def test_a_failure_without_its_revision_starts_nothing() -> None:
    world = failed()
    assert world.status.failure is not None
    old = world.status.failure.model_copy(update={"revision": ""})
    world.status = world.status.model_copy(update={"failure": old})
    correct(world)
    assert world.patches == 0


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("seen", [True, False], ids=["seen before", "seen with the correction"])
def test_an_operator_that_dies_in_between_starts_it_once(after: int, *, seen: bool) -> None:
    world = failed() if seen else fails(started(), ExitCode.METADATA)
    world.stream("orders", cluster("east"), cluster("good"))
    world.settle_with_deaths(after)
    assert world.application is not None
    assert (world.application.attempt, world.condition("ApplicationFound")[1]) == (1, "Starting")
