"""By default, a broker creates a topic that a client asks for. The source's clients never cause this."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer

from dynamic_kafka.app.cli import main
from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.driver.report.lag_prober import LagProber
from dynamic_kafka.errors import ClusterError, OptionError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config import admin_config
from dynamic_kafka.kafka.probe import NO_TOPIC
from tests.integration.source.simulated_spark import query
from tests.support.fixtures import Topic
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun, reading
from tests.support.streams import assert_rows, cluster, produce, stream, write_metadata
from tests.support.waiting import wait_until

pytestmark = pytest.mark.deep("each way that a broker could create a topic")

SOON = {"metadataDiscoveryInterval": "50ms", "partitionDiscoveryInterval": "50ms"}


@pytest.fixture(scope="module")
def eager() -> Iterator[KafkaCluster]:
    """Yield a cluster that creates topics on request."""
    with KafkaCluster("eager", overrides={"auto.create.topics.enable": "true"}) as made:
        yield made.start().wait_ready()


@pytest.fixture
def existing(eager: KafkaCluster, topic: Topic) -> str:
    """Create a topic."""
    return eager.create_topic(topic("there"))


@pytest.fixture
def absent(eager: KafkaCluster, topic: Topic) -> Iterator[str]:
    """Yield the name of a topic that does not exist, before and after the test; it sorts before that of `there`."""
    name = topic("absent")
    yield name
    assert name not in topic_names(eager)


def topic_names(at: KafkaCluster) -> set[str]:
    """Return the topics of a cluster. A request for all topics creates none."""
    return set(at.admin.list_topics(timeout=30).topics)


def delete_topic(at: KafkaCluster, name: str) -> None:
    """Delete a topic, and drop the admin client: it might ask for the topic again by itself."""
    (done,) = at.admin.delete_topics([name]).values()
    done.result()
    at.forget_admin()
    wait_until(lambda: name not in topic_names(at), f"the deletion of {name}", timeout_s=30)


def run_batches(run: SourceRun, count: int = 5) -> None:
    """Run some triggers, with metadata lookups between them."""
    for _ in range(count):
        run.batch()
        time.sleep(0.1)


def test_this_broker_creates_topics_on_request(eager: KafkaCluster, topic: Topic) -> None:
    wanted = topic("wanted")
    asking = Consumer({"bootstrap.servers": eager.bootstrap, "group.id": "g", "allow.auto.create.topics": True})

    def created() -> bool:
        asking.list_topics(wanted, timeout=30)
        return wanted in topic_names(eager)

    wait_until(created, wanted, timeout_s=30)
    asking.close()


def test_a_topic_of_the_metadata_is_not_created_at_the_start(
    eager: KafkaCluster, existing: str, absent: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("east", eager, [absent, existing])))
    with reading(path) as run:
        for _ in range(3):
            with pytest.raises(ClusterError, match=f"has no topic '{absent}'"):
                run.batch()


def test_a_topic_added_to_the_metadata_is_not_created(
    eager: KafkaCluster, existing: str, absent: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("east", eager, [existing])))
    wanted = produce("east", eager, existing, 5)
    with reading(path, **SOON) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("east", eager, [absent, existing])))
        run.until(lambda: "rejected" in run.report(), "the rejection")
        wanted += produce("east", eager, existing, 5)
        run.until_rows(wanted)


def test_a_topic_of_the_starting_offsets_is_not_created(
    eager: KafkaCluster, existing: str, absent: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("east", eager, [existing])))
    positions = json.dumps({"east": {existing: {"0": 0}, absent: {"0": 0}}})
    with reading(path, startingOffsets=positions) as run, pytest.raises(OptionError, match=absent):
        run.batch()


def test_the_topic_for_the_clusters_id_is_not_created(eager: KafkaCluster, existing: str) -> None:
    config = admin_config("east", {"bootstrap.servers": eager.bootstrap})
    admin = ClusterAdmin("east", config, read_committed=False, deadline_s=30)
    assert admin.kafka_id(existing, NO_TOPIC) == eager.kafka_id
    admin.close_in_background()
    assert NO_TOPIC not in topic_names(eager)


@pytest.mark.parametrize("by", ["subscribe", "assign", "subscribePattern"])
def test_a_topic_of_sparks_own_options_is_not_created(
    eager: KafkaCluster, existing: str, absent: str, path: Path, by: str
) -> None:
    named = {
        "subscribe": f"{absent},{existing}",
        "assign": json.dumps({absent: [0], existing: [0]}),
        "subscribePattern": f"{absent}|{existing}",
    }
    produce("default", eager, existing, 5)
    options = {"kafka.bootstrap.servers": eager.bootstrap, by: named[by], "startingOffsets": "earliest"}
    with query(options) as reading:
        if by == "subscribePattern":
            assert len(reading.batch()) == 5
        else:
            with pytest.raises(ClusterError, match=absent):
                reading.batch()


@pytest.mark.parametrize("pending", [False, True], ids=["between batches", "under a pending batch"])
def test_a_topic_deleted_while_being_read_is_not_re_created(
    eager: KafkaCluster, existing: str, absent: str, path: Path, pending: bool
) -> None:
    # Given a query that reads two topics, commits to a group, and reports its lag
    eager.create_topic(absent)
    write_metadata(path, stream("orders", cluster("east", eager, [absent, existing])))
    wanted = produce("east", eager, existing, 5) + produce("east", eager, absent, 5)
    group = {"kafka.group.id": absent, "commitOffsets": True, "failOnDataLoss": False, "readTimeout": "5s"}
    with reading(path, **SOON, **group) as run:
        run.until_rows(wanted)
        discovery = make_discovery(run.enumerator.options)
        discovery.start()
        prober = LagProber(run.enumerator.options, discovery, 0.05)
        prober.start()
        try:
            # When one of them is deleted, perhaps during a batch
            late = produce("east", eager, absent, 5)
            if pending:
                run.batch(crash="logged")
            delete_topic(eager, absent)
            wanted += produce("east", eager, existing, 5)

            # Then the other is read on, and the deleted one is not created again
            run.until(lambda: (run.rows() - late).total() >= wanted.total(), "the records of the other topic")
            run_batches(run)
        finally:
            prober.stop()
            discovery.stop()
        assert_rows(run.rows() - late, wanted)


def test_the_tools_create_no_topic(
    eager: KafkaCluster, existing: str, absent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = write_metadata(tmp_path / "streams.json", stream("orders", cluster("east", eager, [absent, existing])))
    app = tmp_path / "app.yaml"
    described = {"name": "shop", "metadata": str(metadata), "streams": {"ids": ["orders"]}}
    sinks = [{"name": "out", "type": "console"}]
    app.write_text(yaml.safe_dump({**described, "checkpoint": str(tmp_path / "checkpoint"), "sinks": sinks}))
    assert main(["validate", str(app)]) == 0
    assert main(["plan", str(app)]) != 0
    assert f"has no topic '{absent}'" in capsys.readouterr().out
