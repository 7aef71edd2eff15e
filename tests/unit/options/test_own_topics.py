"""The options `mode`, `deadLetters` and `internalTopics`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import SourceOptions, parse_options
from dynamic_kafka.options.own_topics import DeadLetterTopic, OwnTopics

OPTIONS = {"streamIds": "s", "metadataPath": "/streams.yaml", "recordDeserializer": "m:f", "mode": "deadLetter"}
EAST = {"topic": "dead", "cluster": "east"}
OWN = {"topic": "dead", "bootstrapServers": "h:9092"}


def parsed(wire: Any = EAST, **more: str) -> SourceOptions:
    return parse_options({**OPTIONS, "deadLetters": json.dumps(wire), **more}, mode="streaming")


def test_the_topic_is_on_a_cluster_of_the_metadata() -> None:
    assert parsed().dead_letters == DeadLetterTopic("east", {}, None, "dead")
    assert parsed().warnings == ()


def test_the_topic_may_have_servers_of_its_own() -> None:
    password = {"sasl.password": "${file:/secrets/home:password}"}
    options = parsed({**OWN, "properties": password, "kafkaId": "K1"})
    expected = {**password, "bootstrap.servers": "h:9092"}
    assert options.dead_letters == DeadLetterTopic(None, expected, "K1", "dead")
    assert "password" not in repr(options)


@pytest.mark.parametrize(
    "wire",
    [
        "dead",
        {"topic": "dead"},
        {"cluster": "east"},
        {**EAST, **OWN},
        {**EAST, "properties": {"a": "b"}},
        {**EAST, "topics": "x"},
        {"topic": 1, "cluster": "east"},
        {"topic": "", "cluster": "east"},
        {**OWN, "properties": {"a": 1}},
    ],
)
def test_another_form_is_refused_with_an_example(wire: Any) -> None:
    with pytest.raises(OptionError, match=r"'deadLetters' must be JSON .*east"):
        parsed(wire)


def test_a_literal_secret_is_refused_and_not_repeated() -> None:
    with pytest.raises(OptionError) as refused:
        parsed({**OWN, "properties": {"sasl.password": "s3cret"}})
    assert "s3cret" not in str(refused.value)


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(OptionError, match="'deadLetters' is no JSON"):
        parse_options({**OPTIONS, "deadLetters": "dead"}, mode="streaming")


@pytest.mark.parametrize(
    ("absent", "words"), [("deadLetters", "needs a dead-letter topic"), ("recordDeserializer", "needs 'record")]
)
def test_the_mode_needs_a_topic_and_a_deserialiser(absent: str, words: str) -> None:
    given = {**OPTIONS, "deadLetters": json.dumps(EAST)}
    del given[absent]
    with pytest.raises(OptionError, match=f"mode=deadletter {words}"):
        parse_options(given, mode="streaming")


def test_a_topic_without_the_mode_has_no_effect() -> None:
    options = parsed(mode="failfast", recordEvaluator="m:end", stateLocation="/state")
    assert options.dead_letters is None
    assert options.warnings == ("option 'deadLetters' has no effect without mode=deadletter or lateRows=deadletter",)


def test_late_rows_need_a_topic_and_no_deserialiser() -> None:
    late = {"watermarkAlignmentMaxDrift": "5m", "watermarkMode": "periodic", "lateRows": "deadletter"}
    given = {"streamIds": "s", "metadataPath": "/streams.yaml", **late}
    with pytest.raises(OptionError, match="lateRows=deadletter needs a dead-letter topic"):
        parse_options(given, mode="streaming")
    options = parse_options({**given, "deadLetters": json.dumps(EAST)}, mode="streaming")
    assert options.dead_letters is not None and options.warnings == ()


def own_topics(wire: Any) -> OwnTopics | None:
    given = {"streamIds": "s", "metadataPath": "/streams.yaml", "internalTopics": json.dumps(wire)}
    return parse_options(given, mode="streaming").own_topics


def test_the_own_topics_have_a_home() -> None:
    assert own_topics({"topics": ["log", "keys"], "written": ["log"], "cluster": "east"}) == OwnTopics(
        "east", {}, None, frozenset(("log", "keys")), frozenset(("log",))
    )
    declared = own_topics({"topics": ["keys"], "bootstrapServers": "h:9092", "kafkaId": "K1"})
    assert declared == OwnTopics(None, {"bootstrap.servers": "h:9092"}, "K1", frozenset(("keys",)), frozenset())


@pytest.mark.parametrize(
    "wire", [[], {"topics": [], "cluster": "e"}, {"topics": ["a"]}, {"topics": "a", "cluster": "e"}]
)
def test_another_form_of_own_topics_is_refused(wire: Any) -> None:
    with pytest.raises(OptionError, match=r"'internalTopics' must be JSON .*written"):
        own_topics(wire)
    with pytest.raises(OptionError, match="must be JSON such as"):
        own_topics({"topics": ["a"], "written": ["b"], "cluster": "e"})


def test_the_dead_letter_topic_is_an_own_topic() -> None:
    dead = frozenset(("dead",))
    assert parsed().own_topics == OwnTopics("east", {}, None, dead, dead)
    assert parse_options({"streamIds": "s", "metadataPath": "/x"}, mode="streaming").own_topics is None


def test_the_home_is_recognised_by_name_or_by_id() -> None:
    by_name = OwnTopics("east", {}, None, frozenset("a"), frozenset("a"))
    assert by_name.is_home("east", None, lambda: pytest.fail("a name is enough"))
    assert not by_name.is_home("west", "K1", lambda: "K1")
    by_id = OwnTopics(None, {}, None, frozenset("a"), frozenset("a"))
    assert by_id.is_home("east", "K1", lambda: "K1")
    assert not by_id.is_home("east", "K2", lambda: "K1")
    assert not by_id.is_home("east", None, lambda: None)
