"""The watch over internal topics while the application runs."""

from __future__ import annotations

import logging

import pytest

from dynamic_kafka.app.config.internal_topics import InternalTopic
from dynamic_kafka.app.internal_topics import watch as watch_module
from dynamic_kafka.app.internal_topics.setup_plan import Remembered, SetupPlan
from dynamic_kafka.app.internal_topics.topic_set_up import SetupResult
from dynamic_kafka.app.internal_topics.watch import TopicWatch
from dynamic_kafka.errors import IdentityError, MissingInternalTopicError
from dynamic_kafka.kafka.topic_admin import FoundTopic
from tests.support.waiting import wait_until
from tests.unit.internal_topics.fake_home import FakeAdmin, FakeHome

TOPICS = [InternalTopic(name="log", kind="changelog"), InternalTopic(name="dead", kind="deadLetters")]
THERE = {name: FoundTopic(f"id-{name}", 1, 1, {}) for name in ("log", "dead")}
REMEMBERED = Remembered("K1", {name: topic.topic_id for name, topic in THERE.items()})


@pytest.mark.parametrize("manual", [True, False])
def test_nothing_happens_while_all_are_there(manual: bool) -> None:
    watch = TopicWatch(TOPICS, manual=manual)
    watch.compare(THERE, REMEMBERED)
    assert watch.failure is None
    assert watch.lost() == {"log": False, "dead": False}


@pytest.mark.parametrize("found", [{"dead": THERE["dead"]}, {**THERE, "log": FoundTopic("id-new", 1, 1, {})}])
def test_a_loss_ends_a_manual_application_only(found: dict[str, FoundTopic], caplog: pytest.LogCaptureFixture) -> None:
    manual, automatic = TopicWatch(TOPICS, manual=True), TopicWatch(TOPICS, manual=False)
    for watch in (manual, automatic):
        watch.compare(found, REMEMBERED)
        assert watch.lost() == {"log": True, "dead": False}
    assert isinstance(manual.failure, MissingInternalTopicError)
    assert automatic.failure is None
    assert "The next start does so, too" in caplog.text


def test_a_loss_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    watch = TopicWatch(TOPICS, manual=False)
    for _ in range(3):
        watch.compare({}, REMEMBERED)
    assert len(caplog.records) == 1
    assert vars(caplog.records[0])["event"] == "internal-topics"
    watch.compare(THERE, REMEMBERED)
    assert watch.lost() == {"log": False, "dead": False}


@pytest.mark.parametrize("manual", [True, False])
def test_another_home_cluster_is_no_loss(monkeypatch: pytest.MonkeyPatch, manual: bool) -> None:
    """The servers of the home answer with another `cluster.id`: their topics say nothing about ours."""
    monkeypatch.setattr(watch_module, "INTERVAL_S", 0.01)
    fake = FakeAdmin("K1")
    for name in ("log", "dead"):
        fake.make(name, cleanup_policy="compact")
    watch = TopicWatch(TOPICS, manual=manual)
    watch.start(FakeHome(fake), SetupResult("east", "K1", SetupPlan(), fake.found(["log", "dead"])))
    looks: list[str] = []
    fake.before = looks.append
    fake.topics, fake.id = {}, "K2"
    wait_until(lambda: looks.count("kafka_id") >= 2, "two looks")
    assert isinstance(watch.failure, IdentityError) is manual
    assert watch.lost() == {"log": False, "dead": False}
    fake.id = "K1"
    wait_until(lambda: watch.lost() == {"log": True, "dead": True}, "the loss")
    watch.stop()
