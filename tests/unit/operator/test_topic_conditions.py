"""The condition `TopicsReady`: missing source topics, missing and wrong internal topics, and lost ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkastream_operator.core.application import Life
from kafkastream_operator.core.figures import subscription_figures
from tests.unit.operator.recorded_states import failed_with, reporting
from tests.unit.operator.world import World, running


def types(world: World) -> set[str]:
    return {condition.type for condition in world.status.conditions}


@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        (10, "SourceTopicMissing", "a topic of its streams does not exist"),
        (11, "InternalTopicMissing", "`python -m dynamic_kafka.app init app.yaml`"),
        (12, "InternalTopicMisconfigured", "are not as app.yaml declares them"),
    ],
)
def test_each_exit_code_about_topics_has_its_reason(code: int, reason: str, text: str) -> None:
    world = failed_with(code)
    assert world.condition("TopicsReady") == ("False", reason)
    assert text in world.message("TopicsReady")
    assert world.condition("Ready") == ("False", reason)
    assert world.condition("Stalled") == ("True", reason)


def test_another_failure_is_about_no_topic() -> None:
    world = failed_with(5)
    assert "TopicsReady" not in types(world)
    assert world.condition("Stalled") == ("True", "Failed")


def test_a_failure_that_is_tried_again_needs_a_person_too() -> None:
    cause = "driver container failed with ExitCode: 11, Reason: Error"
    world = running().application_is("Failing", failure=cause).settle()
    assert world.condition("Stalled") == ("True", "InternalTopicMissing")
    world.application_is("Running", failure="").settle()
    assert "TopicsReady" not in types(world)


def test_the_reason_stays_until_a_driver_reports() -> None:
    """Kubeflow's operator tries again at once: the application's status shows the failure for a moment only."""
    cause = "exit code 11: MissingInternalTopicError: internal topics are missing: 'log'"
    world = running().later(minutes=1).driver_fails(cause).settle()
    assert world.condition("TopicsReady") == ("False", "InternalTopicMissing")
    world.driver_starts(reports=False).settle()
    assert world.condition("TopicsReady") == ("False", "InternalTopicMissing")
    world.driver_reports().settle()
    assert "TopicsReady" not in types(world)


@pytest.mark.parametrize("life", ["Completed", "Suspended", "Absent"])
def test_an_application_at_rest_waits_for_no_topic(life: Life) -> None:
    """A run that completes within ten minutes of the failure leaves its count, which only a later run sets back."""
    cause = "exit code 10: MissingSourceTopicError: has no topic 'orders'"
    world = running().later(minutes=1).driver_fails(cause).settle()
    assert world.condition("Stalled") == ("True", "SourceTopicMissing")
    world.driver_starts().settle().later(minutes=1).application_is(life).driver = None
    world.application = world.application if life != "Absent" else None
    world.settle()
    assert "TopicsReady" not in types(world)
    assert world.condition("Ready") == ("True", "NotRunning")
    assert not subscription_figures(world.status).stalled


def test_a_lost_topic_is_a_condition_while_reading_goes_on() -> None:
    world = reporting(running(), lost_topics=("log",))
    assert world.condition("TopicsReady") == ("False", "InternalTopicLost")
    assert world.message("TopicsReady").startswith("internal topics were deleted or re-created")
    assert subscription_figures(world.status).topic_lost
    assert [reason for reason, _ in world.events].count("InternalTopicLost") == 1
    assert "runbooks.md#kafkastreaminternaltopiclost" in world.message("TopicsReady")
    assert world.condition("Ready")[0] == "True"
    assert world.driver is not None and world.driver.report is not None
    world.driver = replace(world.driver, report=replace(world.driver.report, lost_topics=()))
    assert "TopicsReady" not in types(world.settle())
