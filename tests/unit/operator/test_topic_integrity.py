"""A driver that ended for good because of a topic: the subscription stalls, nothing starts, until it is accepted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dynamic_kafka.app.outcome import Outcome
from dynamic_kafka.contract.exit_codes import MEANINGS, ExitCode
from dynamic_kafka.contract.termination_message import ChangedTopic
from dynamic_kafka.errors import TopicIntegrityError
from dynamic_kafka.metadata.document import parse_document
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.planning.sameness.integrity import TopicChange, integrity_error
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.figures import subscription_figures
from kafkastream_operator.core.rollout.restart import MAX_ATTEMPTS
from kafkastream_operator.core.topic_integrity import TopicVerdict
from kafkastream_operator.spark import apache
from tests.unit.operator.test_failures import failed_apache
from tests.unit.operator.world import World, cluster, running

OLD, NEW = "9tQ_vI2NQ-mPHLbQyJ0jXA", "AbCdEfGhIjKlMnOpQrStUQ"
RECREATED = TopicChange("east", "orders", str(saved_topic_id(OLD)), str(saved_topic_id(NEW)))
DELETED = replace(RECREATED, found="")


def message(*changes: TopicChange) -> str:
    """Return the termination message of the bundled application."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "termination-log"
        log.touch()
        Outcome.of(integrity_error(changes)).report(log)
        return log.read_text()


def verdict_of(text: str, code: int = 9) -> TopicVerdict | None:
    """Return the verdict in the status of a pod whose driver has left this message."""
    end = {"exitCode": code, "message": text}
    return TopicVerdict.of({"containerStatuses": [{"name": "driver", "state": {"terminated": end}}]})


def ended(*changes: TopicChange, life: Life = "Failed", **spec: Any) -> World:
    """Return a world whose driver has ended for these topics."""
    world = running(**spec)
    assert world.driver is not None
    world.driver = replace(world.driver, running=False, verdict=verdict_of(message(*changes or (RECREATED,))))
    return world.application_is(life).settle()


# -- the verdict -------------------------------------------------------------------------------------------------------


def test_the_operator_reads_what_the_application_writes(tmp_path: Any) -> None:
    by_acceptance = [code for code, meaning in MEANINGS.items() if meaning.cleared_by == "Acceptance"]
    assert by_acceptance == [ExitCode.TOPIC_INTEGRITY]
    log = tmp_path / "termination-log"
    log.touch()
    text = str(integrity_error([RECREATED, replace(DELETED, topic="it's")]))
    Outcome(ExitCode.TOPIC_INTEGRITY, f"{TopicIntegrityError.__name__}: {text}").report(log)
    verdict = verdict_of(log.read_text())
    assert verdict is not None
    assert verdict.changed == tuple(
        ChangedTopic(cluster="east", topic=topic, expected=OLD) for topic in ("it's", "orders")
    )
    assert OLD in verdict.text and NEW in verdict.text


@pytest.mark.parametrize("text", ["", '{"code": 5, "reason": "ClusterError: x"}', "TopicIntegrityError: x"])
def test_other_reasons_are_no_verdict(text: str) -> None:
    assert verdict_of(text) is None


@pytest.mark.parametrize("change", [RECREATED, DELETED])
def test_a_verdict_stands_until_the_streams_accept_it(change: TopicChange) -> None:
    verdict = verdict_of(message(change))
    assert verdict is not None

    def streams(*topics: str, **pins: str) -> dict[str, Any]:
        return {"orders": {"clusters": {"east": {"topics": list(topics), "topicIds": pins}}}}

    assert verdict.stands(streams("orders"))
    assert verdict.stands(streams("orders", orders=OLD))
    assert not verdict.stands(streams("orders", orders=NEW))
    assert not verdict.stands(streams("payments"))
    assert TopicVerdict("words that a later release writes", ()).stands({})


def test_a_list_without_room_for_all_topics_is_not_the_whole() -> None:
    # Given more changed topics than a termination message takes
    changes = [replace(RECREATED, topic=f"orders-{number:02}") for number in range(40)]
    text = message(*changes)
    assert len(text.encode()) <= 4096

    # Then it has whole changes, and the number of the others with a command
    verdict = verdict_of(text)
    assert verdict is not None
    assert len(verdict.changed) > 5 and len(verdict.changed) + verdict.more == 40
    command = "`python -m dynamic_kafka.app plan app.yaml`"
    assert re.search(rf"; \d+ more topics: {command} lists all, and so does the driver's log$", verdict.text)

    # And streams that accept all listed topics do not start the application
    pins = {change.topic: NEW for change in changes[: len(verdict.changed)]}
    topics = [change.topic for change in changes]
    accepted = {"orders": {"clusters": {"east": {"topics": topics, "topicIds": pins}}}}
    assert verdict.stands(accepted)
    assert not replace(verdict, more=0).stands(accepted)


def test_the_condition_shows_a_long_list_and_the_command() -> None:
    world = ended(*(replace(RECREATED, topic=f"orders-{number:02}") for number in range(40)))
    assert re.search(r"\d more topics: `python -m dynamic_kafka\.app plan app\.yaml`", world.message("Stalled"))
    assert "kubectl patch sparkapplication.sparkoperator.k8s.io app --type merge" in world.message("Stalled")


# -- the conditions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("life", ["Failed", "Failing"])
def test_the_subscription_stalls_with_topic_and_both_ids(life: Life) -> None:
    world = ended(life=life)
    assert world.condition("ApplicationFound") == ("True", "TopicIntegrity")
    assert world.condition("Stalled") == ("True", "TopicIntegrity")
    assert world.condition("Ready") == ("False", "TopicIntegrity")
    text = world.message("Stalled")
    assert re.search(rf"\[TOPIC_CHANGED cluster=east topic=orders id={OLD} now={NEW}\] .*re-created", text)
    assert "The operator starts nothing before that" in text
    assert "kubectl patch sparkapplication.sparkoperator.k8s.io app --type merge" in text
    assert world.patches == 0
    assert subscription_figures(world.status).stalled


@pytest.mark.parametrize("strategy", ["Auto", "Restart"])
@pytest.mark.parametrize("life", ["Failed", "Failing"])
def test_nothing_is_started_before_the_acceptance(strategy: str, life: Life) -> None:
    # Another change of the streams must not start a driver that ends again
    world = ended(life=life, updateStrategy=strategy)
    world.stream("orders", cluster("east"), cluster("west")).later(hours=1).settle()
    assert world.patches == 0
    assert world.condition("Stalled")[0] == "True"
    if life == "Failing":
        assert world.condition("RolledOut") == ("False", "TopicIntegrity")


# -- after the acceptance ----------------------------------------------------------------------------------------------


def accept(world: World) -> World:
    """Name the new id in the stream."""
    return world.stream("orders", {**cluster("east"), "topicIds": {"orders": NEW}}).settle()


@pytest.mark.parametrize("strategy", ["Auto", "Restart"])
def test_an_accepted_change_starts_the_application_once(strategy: str) -> None:
    world = accept(ended(updateStrategy=strategy))
    assert world.patches == 1
    assert world.application is not None
    assert world.document is not None
    assert world.application.token == world.document.revision.token
    assert world.condition("ApplicationFound") == ("True", "Starting")
    assert world.condition("Stalled")[0] == "False"

    # Kubeflow's operator runs it again; the driver has the new revision
    world.application_is("Starting", submission="s2")
    world.driver = None
    world.settle().driver_starts().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    assert world.condition("Ready")[0] == "True"
    assert world.patches == 1


@pytest.mark.parametrize("after", range(4))
def test_an_operator_that_dies_in_between_starts_it_once(after: int) -> None:
    world = ended()
    world.stream("orders", {**cluster("east"), "topicIds": {"orders": NEW}})
    world.settle_with_deaths(after)
    assert world.application is not None
    assert (world.application.attempt, world.condition("ApplicationFound")[1]) == (1, "Starting")


def test_a_lost_patch_is_made_again() -> None:
    world = accept(ended())
    world.later(hours=1).settle()
    assert world.patches == 2


def test_a_given_up_start_is_not_made_again_without_a_change() -> None:
    world = accept(ended())
    for _ in range(12):
        world.later(minutes=5).settle()
    assert (world.patches, world.condition("RolledOut")[1]) == (MAX_ATTEMPTS, "Stalled")
    world.changes(secrets=[]).settle()
    assert world.patches == MAX_ATTEMPTS + 1


def test_a_topic_that_is_taken_out_needs_no_acceptance() -> None:
    world = ended()
    world.stream("orders", cluster("east", "payments"), policy="Immediate").settle()
    assert world.patches == 1


def test_a_topic_that_still_drains_is_still_read() -> None:
    world = ended()
    world.stream("orders", cluster("east", "payments")).settle()
    assert world.rendered()["east/orders"] == "Draining"
    assert (world.patches, world.condition("Stalled")[0]) == (0, "True")

    # No driver drains it, so the condition has the release, after which the operator starts the application
    assert "subscription: kafkastream.dev/release=east/orders. Once" in world.message("Stalled")
    world.released = frozenset({"east/orders"})
    world.settle()
    assert (world.patches, world.condition("Stalled")[0]) == (1, "False")


def test_a_strategy_without_restarts_gets_the_command() -> None:
    world = accept(ended(updateStrategy="Reload"))
    assert world.patches == 0
    assert world.condition("Stalled") == ("True", "TopicIntegrity")
    assert "Start it: `kubectl patch" in world.message("Stalled")


def test_apaches_application_gets_the_command() -> None:
    world = ended()
    accept(world.application_is("Failed", restarts_itself=False))
    assert world.patches == 0
    assert re.search("Start it: delete .*SparkApplication .*apply it again", world.message("Stalled"))


def test_apaches_status_has_the_verdict_when_the_pod_is_gone() -> None:
    end = {"exitCode": 9, "reason": "Error", "message": message(RECREATED)}
    pod = {"containerStatuses": [{"name": "proxy"}, {"name": "main", "state": {"terminated": end}}]}
    failed_app = apache.application_of(failed_apache("ResourceReleased", message="x", lastObservedDriverStatus=pod))
    assert failed_app.verdict == verdict_of(message(RECREATED))
    world = running()
    world.driver = None
    world.application_is("Failed", restarts_itself=False, verdict=failed_app.verdict).settle()
    assert world.condition("Stalled") == ("True", "TopicIntegrity")


def test_a_pause_holds_the_start_back_and_says_so() -> None:
    world = ended(pause={"reason": "change freeze"})
    assert re.search("operator starts it .*pause ends", world.message("ApplicationFound"))
    assert accept(world).patches == 0


def test_a_pause_after_the_acceptance_holds_the_start_back() -> None:
    world = ended()
    world.stream("orders", {**cluster("east"), "topicIds": {"orders": NEW}}).look()
    assert world.patches == 0
    world.changes(pause={"reason": "change freeze"}).settle()
    assert world.patches == 0
    assert world.message("ApplicationFound").endswith("it is started again when the pause ends")


def test_a_spark_operator_that_tries_again_needs_no_command() -> None:
    world = accept(ended(life="Failing", updateStrategy="Reload"))
    assert world.patches == 0
    assert world.condition("ApplicationFound") == ("True", "Starting")
    assert world.message("ApplicationFound").endswith("its Spark operator starts it again")
    assert world.condition("Stalled")[0] == "False"


# -- the document ------------------------------------------------------------------------------------------------------


def test_pins_are_rendered_for_readers_that_enforce_them() -> None:
    world = World().stream("orders", {**cluster("east"), "topicIds": {"orders": OLD}}).settle()
    assert world.document is not None
    wire = json.loads(world.document.text())
    assert (wire["contract"], wire["minReader"]) == (2, 2)
    document = parse_document(world.document.text(), source="f")
    assert document.streams["orders"].clusters["east"].topic_ids == {"orders": OLD}


def test_a_driver_that_would_ignore_pins_is_named() -> None:
    world = running()
    assert world.driver is not None
    assert world.driver.report is not None
    world.driver = replace(world.driver, report=replace(world.driver.report, reader=1))
    world.settle()
    assert world.condition("Reporting") == ("True", "Reporting")
    world.stream("orders", {**cluster("east"), "topicIds": {"orders": OLD}}).settle()
    assert world.condition("Reporting") == ("False", "ImageTooOld")


@pytest.mark.parametrize(
    ("pins", "problem"),
    [({"orders": "abc"}, "is no topic id"), ({"payments": OLD}, "is not among this cluster's topics")],
)
def test_a_wrong_pin_holds_the_stream(pins: dict[str, str], problem: str) -> None:
    world = running()
    world.stream("orders", {**cluster("east"), "topicIds": pins}).settle()
    assert world.condition("StreamsResolved") == ("False", "InvalidStream")
    assert problem in world.message("StreamsResolved")
    assert world.rendered() == {"east/orders": "Active"}


def test_a_draining_topic_keeps_its_pin() -> None:
    world = World().stream("orders", {**cluster("east", "orders", "old"), "topicIds": {"old": OLD, "orders": NEW}})
    world.application_is("Starting").settle().driver_starts().settle()
    world.stream("orders", {**cluster("east"), "topicIds": {"orders": NEW}}).settle()
    assert world.document is not None
    east = world.document.streams["orders"]["clusters"]["east"]
    assert (east["drainingTopics"], east["topicIds"]) == (["old"], {"orders": NEW, "old": OLD})
    # and the stream without what drains has only its own
    world.stream("orders", cluster("east")).settle()
    assert world.document.streams["orders"]["clusters"]["east"]["topicIds"] == {"old": OLD}


def test_a_cluster_that_drains_keeps_its_pins() -> None:
    world = World().stream("orders", {**cluster("east"), "topicIds": {"orders": OLD}}, cluster("west"))
    world.application_is("Starting").settle().driver_starts().settle()
    world.stream("orders", cluster("west")).settle()
    assert world.document is not None
    assert world.document.streams["orders"]["clusters"]["east"]["topicIds"] == {"orders": OLD}
