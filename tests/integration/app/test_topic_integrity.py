"""The application ends for good when a topic is another one, and runs again once metadata or the tool accept it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.app.cli import main
from tests.integration.app.driving import AppRun, RunApp, RunHere, write_app
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster
from tests.support.streams import Rows, assert_rows, cluster, produce, stream, write_metadata

OPTIONS = {"startingOffsets": "earliest", "metadataDiscoveryInterval": "1s", "topicIntegrityCheck": "true"}


class Story:
    """An application that reads a topic of cluster `a`."""

    def __init__(self, at: KafkaCluster, topic: str, folder: Path) -> None:
        self.at, self.topic, self.folder = at, topic, folder
        at.create_topic(topic)
        self.name()
        self.config = write_app(folder, options={**OPTIONS, "failOnDataLoss": "false"})

    def name(self, **more: Any) -> None:
        write_metadata(self.folder / "streams.json", stream("st", cluster("a", self.at, [self.topic], **more)))

    def recreate(self) -> Rows:
        self.at.delete_topic(self.topic)
        self.at.create_topic(self.topic)
        return produce("a", self.at, self.topic, 12, prefix="new")

    def ends(self, run: AppRun | RunHere) -> str:
        """Return the reason why the run ended; its exit code is 9."""
        assert run.wait_exit() == 9, run.last_lines()
        [ended] = run.events("ended")
        assert ended["code"] == 9
        return str(ended["reason"])


@pytest.mark.parametrize("by", ["metadata", pytest.param("tool", marks=pytest.mark.deep("the second way to accept"))])
def test_a_recreated_topic_ends_the_application_for_good(
    brokers: Brokers, topic: Topic, tmp_path: Path, by: str, run_app: RunApp
) -> None:
    # Given an application that runs, and a topic that is deleted and created again
    story = Story(brokers.a, topic("orders"), tmp_path)
    before, old = produce("a", brokers.a, story.topic, 4), brokers.a.topic_id(story.topic)
    with AppRun(story.config) as run:
        run.wait_rows(before)
        with run.paused():  # else a plan may find the topic missing, between its deletion and its creation
            after = story.recreate()
        reason = story.ends(run)
    now = brokers.a.topic_id(story.topic)
    changed = f"[TOPIC_CHANGED cluster=a topic={story.topic} id={old} now={now}] the topic was re-created"
    words = f"TopicIntegrityError: {changed}"
    assert reason.startswith(words)

    # Then a re-run ends before Spark starts, with the same words
    with run_app(story.config) as run:
        assert story.ends(run) == reason
        assert not run.asked_for_spark
        assert_rows(run.rows(), before)

    # Once the change is accepted, the new topic comes once, from its first record
    if by == "metadata":
        story.name(topicIds={story.topic: now})
    else:
        assert main(["accept", str(story.config), "--topic", f"a/{story.topic}={now}", "--yes"]) == 0
    with run_app(story.config) as run:
        run.wait_rows(before + after)
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), before + after)


@pytest.mark.deep("more ways to another topic")
def test_a_pin_that_does_not_fit_ends_each_first_start(
    brokers: Brokers, topic: Topic, tmp_path: Path, run_app: RunApp
) -> None:
    # Given a topic that was re-created before the application's first start, pinned to its first id
    story = Story(brokers.a, topic("orders"), tmp_path)
    old, wanted = brokers.a.topic_id(story.topic), story.recreate()
    now = brokers.a.topic_id(story.topic)
    story.name(topicIds={story.topic: old})
    with run_app(story.config) as run:
        reason = story.ends(run)
    changed = f"[TOPIC_CHANGED cluster=a topic={story.topic} id={old} now={now}] the topic was re-created"
    words = f"TopicIntegrityError: {changed}"
    assert reason.startswith(words)

    # Then the next first start ends before Spark starts, with the same words
    with run_app(story.config) as run:
        assert story.ends(run) == reason
        assert not run.asked_for_spark

    # Once the metadata pin the present id, the topic comes once
    story.name(topicIds={story.topic: now})
    with run_app(story.config) as run:
        run.wait_rows(wanted)
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), wanted)


@pytest.mark.deep("more ways to another topic")
def test_the_bare_command_accepts_a_deleted_topic(
    brokers: Brokers, topic: Topic, tmp_path: Path, capsys: pytest.CaptureFixture[str], run_app: RunApp
) -> None:
    story = Story(brokers.a, topic("orders"), tmp_path)
    other = topic("kept")
    brokers.b.create_topic(other)
    wanted = produce("a", brokers.a, story.topic, 4)
    clusters = cluster("a", brokers.a, [story.topic]), cluster("b", brokers.b, [other])
    write_metadata(tmp_path / "streams.json", stream("st", *clusters))
    with run_app(story.config) as run:
        run.wait_rows(wanted)
        brokers.a.delete_topic(story.topic)
        assert f"[TOPIC_CHANGED cluster=a topic={story.topic} id=" in story.ends(run)
    assert main(["plan", str(story.config)]) == 9
    assert "is missing" in capsys.readouterr().out
    assert main(["accept", str(story.config), "--yes"]) == 0
    wanted += produce("b", brokers.b, other, 3)
    with run_app(story.config) as run:
        run.wait_rows(wanted)
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), wanted)
