"""The requests to make topics: each answer has its consequence, and a moving controller is asked again."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.kafka.topic_admin import TopicAdmin, WantedTopic

TOPICS = [WantedTopic(name, 1, None, {"cleanup.policy": "compact"}) for name in ("a", "b")]


class Client:
    """An admin client that answers as a test says: for each request, {topic: error code or None}."""

    def __init__(self, *answers: dict[str, int | None]) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def create_topics(self, topics: list[Any], **_: Any) -> dict[str, Future[None]]:
        self.asked.append([topic.topic for topic in topics])
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        futures = {}
        for topic in topics:
            future: Future[None] = Future()
            code = answer.get(topic.topic)
            if code is None:
                future.set_result(None)
            else:
                future.set_exception(KafkaException(KafkaError(code)))
            futures[topic.topic] = future
        return futures

    def poll(self, timeout: float) -> int:
        return 0


def admin(*answers: dict[str, int | None], deadline_s: float = 30.0) -> tuple[TopicAdmin, Client]:
    client = Client(*answers)
    made = TopicAdmin.__new__(TopicAdmin)
    made.cluster, made.deadline_s = "home", deadline_s
    made._client, made._last_problem = client, None  # type: ignore[assignment]
    return made, client


@pytest.mark.parametrize(("others", "exists"), [(False, True), (True, False)])
def test_a_topic_without_a_configuration_is_confirmed(
    monkeypatch: pytest.MonkeyPatch, *, others: bool, exists: bool
) -> None:
    # Given a topic whose configuration one broker does not have, once
    made, _ = admin({})
    topic = SimpleNamespace(topic_id=None, partitions=[])
    configs = iter([{}, {"a": {"cleanup.policy": "compact"}}])
    monkeypatch.setattr(made, "_described_topics", lambda *_: ({"a": topic}, frozenset()))
    monkeypatch.setattr(made, "_described_configs", lambda _: next(configs))
    monkeypatch.setattr(made, "absent_topics", lambda topics: frozenset(topics if others else ()))

    # Then it is missing only if other brokers confirm that
    assert (made.found(["a"]).keys() == {"a"}) is exists


def test_both_are_made_by_one_request() -> None:
    made, client = admin({})
    assert made.create(TOPICS).made == {"a", "b"}
    assert client.asked == [["a", "b"]]


def test_a_topic_that_another_client_made_is_not_its_own() -> None:
    made, _ = admin({"b": KafkaError.TOPIC_ALREADY_EXISTS})
    creation = made.create(TOPICS)
    assert (creation.made, creation.existed) == ({"a"}, {"b"})


@pytest.mark.parametrize("code", [KafkaError._DESTROY_BROKER, KafkaError.LEADER_NOT_AVAILABLE])
def test_only_a_topic_with_a_transient_error_is_asked_again(code: int) -> None:
    made, client = admin({"b": code}, {})
    assert made.create(TOPICS).made == {"a", "b"}
    assert client.asked == [["a", "b"], ["b"]]


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT])
def test_a_topic_without_an_answer_may_have_been_made(code: int) -> None:
    made, client = admin({"b": code})
    creation = made.create(TOPICS)
    assert (creation.made, creation.unclear) == ({"a"}, {"b"})
    assert len(client.asked) == 1


def test_a_lasting_transient_error_leaves_it_unclear() -> None:
    made, _ = admin({"b": KafkaError._DESTROY_BROKER}, deadline_s=0.2)
    assert made.create(TOPICS).unclear == {"b"}


def test_a_refusal_names_the_missing_right() -> None:
    made, _ = admin({"a": KafkaError.TOPIC_AUTHORIZATION_FAILED, "b": KafkaError.INVALID_CONFIG})
    refused = made.create(TOPICS).refused
    assert "give the user CREATE on the topic" in str(refused["a"])
    assert "could not make topic 'b'" in str(refused["b"])
    assert "give the user" not in str(refused["b"])
