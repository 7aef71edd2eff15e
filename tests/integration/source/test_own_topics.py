"""The application's own topics on real brokers: no pattern reads them, and a stream that names one is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import OptionError
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster
from tests.support.source_run import DEADLINE_S, SourceRun, reading
from tests.support.streams import cluster, produce, stream, write_metadata
from tests.support.waiting import wait_until

pytestmark = pytest.mark.deep("patterns that match internal topics")

MODULE = "tests.integration.source.evaluators"
HOMES: dict[str, Callable[[KafkaCluster], dict[str, str]]] = {
    "by-name": lambda _: {"cluster": "default"},
    "by-servers": lambda at: {"bootstrapServers": at.bootstrap},
    "by-id": lambda at: {"bootstrapServers": at.bootstrap, "kafkaId": at.kafka_id},
}


def own(at: KafkaCluster, home: str, *topics: str) -> str:
    """The option `internalTopics`: the application writes the first of these topics."""
    return json.dumps({"topics": topics, "written": topics[:1], **HOMES[home](at)})


@pytest.mark.parametrize("home", HOMES)
def test_a_pattern_matches_no_own_topic(brokers: Brokers, topic: Topic, home: str) -> None:
    prefix = topic("own")
    orders, log, keys = (brokers.a.create_topic(f"{prefix}-{name}") for name in ("orders", "log", "keys"))
    produce("default", brokers.a, log, 3)
    produce("default", brokers.a, keys, 3)
    wanted = produce("default", brokers.a, orders, 5)
    options = {"kafka.bootstrap.servers": brokers.a.bootstrap, "subscribePattern": f"{prefix}-.*"}
    with SourceRun(**options, internalTopics=own(brokers.a, home, log, keys)) as run:
        run.until_rows(wanted)
        assert run.next.keys() == {("default", orders)}


def test_a_topic_of_the_same_name_elsewhere_is_read(brokers: Brokers, topic: Topic) -> None:
    log = brokers.a.create_topic(topic("log"))
    wanted = produce("default", brokers.a, log, 3)
    options = {"kafka.bootstrap.servers": brokers.a.bootstrap, "internalTopics": own(brokers.b, "by-servers", log)}
    for way in ("subscribePattern", "subscribe"):
        with SourceRun(**options, **{way: log}) as run:
            run.until_rows(wanted)


def test_dead_letters_are_not_read_by_the_pattern(brokers: Brokers, topic: Topic) -> None:
    prefix = topic("own")
    orders, dead = (brokers.a.create_topic(f"{prefix}-{name}") for name in ("orders", "dead"))
    wanted = produce("default", brokers.a, orders, 2)
    brokers.a.produce(orders, ["bad-1"], partition=0)
    with SourceRun(
        subscribePattern=f"{prefix}-.*",
        recordDeserializer=f"{MODULE}:refuse_bad",
        mode="deadletter",
        deadLetters=json.dumps({"topic": dead, "bootstrapServers": brokers.a.bootstrap}),
        **{"kafka.bootstrap.servers": brokers.a.bootstrap},
    ) as run:
        run.until_rows(wanted)
        assert brokers.a.end_offsets(dead) == {0: 1}
        assert run.next == {("default", orders): {0: 3}}


def test_own_topics_that_an_older_release_has_read_are_parked(brokers: Brokers, topic: Topic) -> None:
    prefix = topic("own")
    orders, log = (brokers.a.create_topic(f"{prefix}-{name}") for name in ("orders", "log"))
    wanted = produce("default", brokers.a, orders, 2) + produce("default", brokers.a, log, 3)
    with SourceRun(**{"kafka.bootstrap.servers": brokers.a.bootstrap}, subscribePattern=f"{prefix}-.*") as run:
        run.until_rows(wanted)
        run.restart(internalTopics=own(brokers.a, "by-servers", log))
        produce("default", brokers.a, log, 3)
        wanted += produce("default", brokers.a, orders, 2)
        run.until_rows(wanted)
        assert run.parked == {("default", log): {0: 3}}


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("way", ["subscribe", "assign", "streamIds"])
@pytest.mark.sampled
def test_a_named_own_topic_is_refused(brokers: Brokers, topic: Topic, way: str, home: str) -> None:
    log = brokers.a.create_topic(topic("log"))
    chosen: dict[str, Any] = {way: json.dumps({log: [0]}) if way == "assign" else log}
    chosen["metadataService"] = "single-cluster"
    with SourceRun(
        **{"kafka.bootstrap.servers": brokers.a.bootstrap}, **chosen, internalTopics=own(brokers.a, home, log)
    ) as run:
        text = run.until_fails(OptionError)
    assert "topics of cluster 'default'" in text and "itself writes" in text
    assert log in text


def test_a_named_topic_that_another_program_writes_is_read(brokers: Brokers, topic: Topic) -> None:
    log, keys = (brokers.a.create_topic(topic(name)) for name in ("log", "keys"))
    wanted = produce("default", brokers.a, keys, 3)
    options = {"kafka.bootstrap.servers": brokers.a.bootstrap, "internalTopics": own(brokers.a, "by-id", log, keys)}
    with SourceRun(**options, subscribe=keys) as run:
        run.until_rows(wanted)


def test_metadata_that_begin_to_name_one_are_rejected(brokers: Brokers, orders: str, topic: Topic, path: Path) -> None:
    log = brokers.a.create_topic(topic("log"))
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path, internalTopics=own(brokers.a, "by-servers", log)) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, log])))
        produce("a", brokers.a, log, 3)

        def rejected() -> bool:
            run.batch()
            return "this application itself writes" in str(run.report())

        wait_until(rejected, "the rejected metadata", timeout_s=DEADLINE_S)
        wanted += produce("a", brokers.a, orders, 3)
        run.until_rows(wanted)
