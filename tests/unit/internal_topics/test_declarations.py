"""`internalTopics` in app.yaml: what each kind needs, the home cluster, and mistakes with their lines."""

from __future__ import annotations

import json

import pytest

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.loading import parse_config
from dynamic_kafka.app.internal_topics.home import find_home
from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options.own_topics import DeadLetterTopic

APP = """\
name: shop
metadata: /etc/kafkastreams
streams: {ids: [orders]}
checkpoint: /data/checkpoints
sinks: [{name: lake, type: console}]
internalTopics:
"""
TOPICS = """\
  topics:
    - {name: offsets, kind: changelog}
    - {name: keys, kind: repartition, partitions: 6, replicationFactor: 3}
    - {name: dead, kind: deadLetters, cleanupPolicy: 'compact,delete', config: {retention.ms: 1000}}
"""


def parsed(internal: str, options: str = "") -> AppConfig:
    return parse_config(APP + internal + options, source="app.yaml")


def refused(internal: str) -> str:
    with pytest.raises(OptionError) as caught:
        parsed(internal)
    return str(caught.value)


def test_each_kind_has_the_configuration_that_it_needs() -> None:
    declared = parsed("  cluster: east\n" + TOPICS).file.internal_topics
    assert declared is not None
    assert {topic.name: topic.configuration for topic in declared.topics} == {
        "offsets": {"cleanup.policy": "compact"},
        "keys": {"cleanup.policy": "delete", "retention.ms": "-1"},
        "dead": {"cleanup.policy": "compact,delete", "retention.ms": "1000"},
    }
    assert [(topic.partitions, topic.replication_factor) for topic in declared.topics] == [(1, None), (6, 3), (1, None)]


def test_the_set_up_is_automatic_unless_an_option_says_manual() -> None:
    for key in ("internalTopicsSetup", "internal.topics.setup"):
        config = parsed("  cluster: east\n" + TOPICS, f"options: {{{key}: manual}}\n")
        assert config.parsed_options(config.sinks[0]).internal_topics_setup == "manual"
    config = parsed("  cluster: east\n" + TOPICS)
    assert config.parsed_options(config.sinks[0]).internal_topics_setup == "automatic"


@pytest.mark.parametrize(
    ("internal", "text"),
    [
        (TOPICS, "app.yaml:6: internalTopics: set exactly one of `cluster` and `bootstrapServers`"),
        ("  cluster: east\n  topics: []\n", "app.yaml:8: internalTopics.topics: must not be empty"),
        (
            "  cluster: east\n  topics: [{name: keys, kind: repartition}]\n",
            "is missing: a repartition topic",
        ),
        ("  cluster: east\n  topics: [{name: a/b, kind: changelog}]\n", "a topic's name has 1 to 249 letters"),
        ("  cluster: east\n  topics: [{name: a, kind: changlog}]\n", "did you mean 'changelog'?"),
        (
            "  cluster: east\n  topics: [{name: a, kind: changelog, cleanupPolicy: delete}]\n",
            "must be 'compact' or 'compact,delete' for the kind 'changelog'",
        ),
        (
            "  cluster: east\n  topics: [{name: a, kind: repartition, partitions: 2, cleanupPolicy: compact}]\n",
            "must be 'delete' for a repartition topic",
        ),
        (
            "  cluster: east\n  topics: [{name: a, kind: changelog, config: {cleanup.policy: compact}}]\n",
            "has a field of its own: set `cleanupPolicy`",
        ),
        (
            "  cluster: east\n  topics: [{name: a, kind: changelog}, {name: a, kind: changelog}]\n",
            "another topic is named 'a' too",
        ),
        ("  cluster: east\n  offsetChangelog: dead\n" + TOPICS, "must be a topic of the kind changelog under `topics`"),
        ("  cluster: east\n  deadLetters: keys\n" + TOPICS, "must be a topic of the kind deadLetters under `topics`"),
        ("  cluster: east\n  properties: {a: b}\n" + TOPICS, "go with `bootstrapServers`"),
        ("  bootstrapServers: h:1\n  properties: {sasl.password: secret-1}\n" + TOPICS, "sasl.password"),
        (
            "  cluster: east\n  timeout: 5\n" + TOPICS,
            "timeout: must be at least 1s; a number without a unit means milliseconds",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(internal: str, text: str) -> None:
    message = refused(internal)
    assert text in message
    assert "secret-1" not in message


def test_a_setting_without_effect_is_noted() -> None:
    letters = "  cluster: east\n  deadLetters: dead\n" + TOPICS
    why = "internalTopics.deadLetters has no effect without the option mode=deadletter or lateRows=deadletter"
    assert parsed(letters).warnings == (why,)
    assert parsed(letters, "options: {mode: DeadLetter, recordDeserializer: 'rules:read'}\n").warnings == ()
    assert parsed("  cluster: east\n" + TOPICS, "options: {internalTopicsSetup: manual}\n").warnings == ()
    for key in ("internalTopicsSetup", "internal.topics.setup"):
        alone = APP.removesuffix("internalTopics:\n") + f"options: {{{key}: manual}}\n"
        why = "option 'internalTopicsSetup' has no effect without the field `internalTopics`"
        assert parse_config(alone, source="app.yaml").warnings == (why,)


def test_a_home_of_its_own_gets_its_own_properties_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "secret-1")
    own = (
        "{security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: u, sasl.password: '${env:SHOP_PASSWORD}'}"
    )
    config = parsed(
        f"  bootstrapServers: h:9092\n  properties: {own}\n" + TOPICS,
        "options: {kafka.client.rack: r1, kafka.sasl.password: '${env:OTHER}', allowedServers: '*'}\n",
    )
    declared = config.file.internal_topics
    assert declared is not None
    home = find_home(config, declared, lambda: pytest.fail("no metadata is needed"))
    resolved = home.client.resolved_properties()
    assert resolved["bootstrap.servers"] == "h:9092"
    assert resolved["sasl.password"] == "secret-1"
    assert "client.rack" not in resolved
    assert "secret-1" not in repr(home)


def test_a_home_that_metadata_does_not_name_is_refused() -> None:
    config = parsed("  cluster: eats\n" + TOPICS)
    declared = config.file.internal_topics
    assert declared is not None
    east = SubscribedCluster({"orders": "orders"}, {"bootstrap.servers": "e:9092"})
    with pytest.raises(OptionError, match=r"no cluster 'eats'; .*mean 'east'"):
        find_home(config, declared, lambda: Subscription({"east": east}, ("orders",)))


def test_the_state_is_beside_the_checkpoints_by_default() -> None:
    assert parsed("  cluster: east\n" + TOPICS).state_location == "/data/checkpoints/dynamic-kafka"
    moved = parsed("  cluster: east\n" + TOPICS, "options: {stateLocation: /state}\n")
    assert moved.state_location == "/state"


def test_a_home_in_the_metadata_follows_its_servers() -> None:
    config = parsed("  cluster: east\n" + TOPICS)
    declared = config.file.internal_topics
    assert declared is not None
    servers = ["e:9092"]

    def subscription() -> Subscription:
        east = SubscribedCluster({"orders": "orders"}, {"bootstrap.servers": servers[0]})
        return Subscription({"east": east}, ("orders",))

    home = find_home(config, declared, subscription)
    servers[0] = "moved:9092"
    assert home.client.resolved_properties()["bootstrap.servers"] == "moved:9092"


REFUSING = "options: {mode: deadletter, recordDeserializer: 'rules:read'}\n"


def test_the_source_gets_the_dead_letter_topic_with_its_home() -> None:
    config = parsed("  cluster: east\n  deadLetters: dead\n" + TOPICS, REFUSING)
    assert config.parsed_options(config.sinks[0]).dead_letters == DeadLetterTopic("east", {}, None, "dead")
    dead_letters = json.loads(config.reader_options(config.sinks[0], home_id="K2")["deadLetters"])
    assert dead_letters == {"topic": "dead", "cluster": "east", "kafkaId": "K2"}
    own = "  bootstrapServers: h:9092\n  kafkaId: K1\n  properties: {sasl.password: '${env:SHOP}'}\n"
    config = parsed(own + "  deadLetters: dead\n" + TOPICS, REFUSING)
    properties = {"bootstrap.servers": "h:9092", "sasl.password": "${env:SHOP}"}
    assert config.parsed_options(config.sinks[0]).dead_letters == DeadLetterTopic(None, properties, "K1", "dead")
    config = parsed("  cluster: east\n  deadLetters: dead\n" + TOPICS)
    assert "deadLetters" not in config.source_options(config.sinks[0])


def test_the_source_gets_the_own_topics_and_those_that_it_writes() -> None:
    fields = "  cluster: east\n  offsetChangelog: offsets\n  deadLetters: dead\n" + TOPICS
    names = ["offsets", "keys", "dead"]
    for options, written in (("", ["offsets"]), (REFUSING, ["offsets", "dead"])):
        config = parsed(fields, options)
        internal_topics = json.loads(config.reader_options(config.sinks[0], home_id="K2")["internalTopics"])
        assert internal_topics == {"topics": names, "written": written, "cluster": "east", "kafkaId": "K2"}
    with pytest.raises(OptionError, match=r"already set by .*`internalTopics`"):
        parsed(fields, "options: {internalTopics: {topics: [x], cluster: east}}\n")


def test_the_mode_without_a_dead_letter_topic_is_refused() -> None:
    with pytest.raises(OptionError, match=r"app\.yaml:.*'deadLetters', in app\.yaml `deadLetters`"):
        parsed("  cluster: east\n" + TOPICS, REFUSING)
    both = REFUSING.replace("}", ", deadLetters: {topic: dead, cluster: east}}")
    with pytest.raises(OptionError, match=r"already set by .*`internalTopics`"):
        parsed("  cluster: east\n  deadLetters: dead\n" + TOPICS, both)
